#include "trainer/hlo/layers/layers.h"

#include <string>
#include <variant>

#include "io/base/error.h"

namespace millrace::trainer::hlo {
namespace {

template <typename Layer>
concept HasProgram = requires(const Layer& one, const LayerArguments& at) {
  layer(one, at);
};

}  // namespace

LayerResults node_program(const LayerArguments& at) {
  check_supported(at.node);
  return std::visit(
      [&at](const auto& one) -> LayerResults {
        if constexpr (HasProgram<decltype(one)>) return layer(one, at);
        return {};
      },
      at.node.layer);
}

void check_supported(const nn::Node& node) {
  const bool has_program =
      std::visit([](const auto& one) { return HasProgram<decltype(one)>; }, node.layer);
  if (has_program || std::holds_alternative<nn::Input>(node.layer)) return;
  throw Error(
      ErrorCode::kUnsupported,
      "layer " + node.name + ": " + std::string(nn::layer_name(node.layer)) + " has no StableHLO");
}

}  // namespace millrace::trainer::hlo

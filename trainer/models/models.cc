#include "trainer/models/models.h"

#include <algorithm>
#include <array>
#include <string>

#include "io/base/error.h"
#include "trainer/models/detail/builders.h"

namespace millrace::trainer {
namespace {

struct NamedModel {
  std::string_view name;
  nn::Graph (*build)(const ModelOptions&);
};

constexpr std::array kModels = {
    NamedModel{"alexnet", models::alexnet},   NamedModel{"lenet", models::lenet},
    NamedModel{"resnet18", models::resnet18}, NamedModel{"resnet34", models::resnet34},
    NamedModel{"resnet50", models::resnet50}, NamedModel{"unet", models::unet},
};

}  // namespace

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names;
  names.reserve(kModels.size());
  for (const NamedModel& entry : kModels) names.push_back(entry.name);
  return names;
}

nn::Graph build_model(std::string_view name, const ModelOptions& options) {
  const auto found = std::ranges::find(kModels, name, &NamedModel::name);
  if (found != kModels.end()) return found->build(options);
  std::string known;
  for (const NamedModel& entry : kModels)
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  throw Error(ErrorCode::kInvalidArgument,
              "no model is named " + std::string(name) + "; there are " + known);
}

}  // namespace millrace::trainer

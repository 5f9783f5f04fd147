#include "trainer/ops/detail/image_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>

#include "io/base/error.h"
#include "io/base/text.h"
#include "trainer/nn/summary.h"

namespace millrace::trainer::ops {
namespace {

// Fewer channels do not fill a tile: LeNet's steps (1, 6 and 16 channels) take 1.9 times as long
// channels-last, with AVX-512 bf16.
bool fills_tiles(const nn::Graph& graph) {
  constexpr std::int64_t kTile = 16;
  std::int64_t all = 0;
  std::int64_t filling = 0;
  for (const nn::Node& node : graph.nodes()) {
    const auto* const layer = std::get_if<nn::Conv2d>(&node.layer);
    if (layer == nullptr) continue;
    const std::int64_t work = nn::multiply_adds(graph, node);
    const std::int64_t inputs = graph.node(node.inputs[0]).shape[0];
    all += work;
    if (std::min(inputs, layer->channels) / layer->groups >= kTile) filling += work;
  }
  return filling * 2 > all;
}

// oneDNN has AMX convolutions for channels-last images only: 2,071 GFLOP/s where blocks reach 116
// (2.6.3, one core of a Xeon, 3x3, 32 x 64 x 32^2).
bool is_channels_last(const nn::Graph& graph, bool bfloat16, Isa isa) {
  const char* const variable = std::getenv("MILLRACE_IMAGE_LAYOUT");
  if (variable == nullptr) return bfloat16 && isa >= Isa::kAmx && fills_tiles(graph);
  const std::string_view word = variable;
  if (word != "channels_last" && word != "blocks")
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("MILLRACE_IMAGE_LAYOUT={}: there are channels_last, blocks",
                            printable(std::string(word))));
  return word == "channels_last";
}

}  // namespace

ImageLayout image_layout(const nn::Graph& graph, bool bfloat16, Isa isa) {
  if (is_channels_last(graph, bfloat16, isa)) return {.block = ImageLayout::kAllChannels};
  return {.block = isa >= Isa::kAvx512 ? 16 : 8};
}

}  // namespace millrace::trainer::ops

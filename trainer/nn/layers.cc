#include "trainer/nn/layers.h"

#include <array>
#include <functional>
#include <numeric>

#include "trainer/nn/custom_layer.h"

namespace millrace::trainer::nn {

std::string shape_text(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + ")";
}

std::int64_t num_values(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string_view layer_name(const Layer& layer) {
  // In the order of the variant.
  static constexpr std::array<std::string_view, std::variant_size_v<Layer>> kNames = {
      "input",
      "conv2d",
      "conv_transpose2d",
      "batch_norm",
      "layer_norm",
      "channel_scale",
      "tokens",
      "attention",
      "take_token",
      "relu",
      "activation",
      "softmax",
      "add",
      "scale",
      "concat",
      "dropout",
      "stochastic_depth",
      "max_pool2d",
      "avg_pool2d",
      "adaptive_avg_pool2d",
      "upsample",
      "flatten",
      "reshape",
      "linear",
      "custom"};
  const auto* custom = std::get_if<Custom>(&layer);
  return custom != nullptr ? custom->layer->kind() : kNames[layer.index()];
}

}  // namespace millrace::trainer::nn

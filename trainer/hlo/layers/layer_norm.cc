#include "trainer/hlo/layers/layers.h"

namespace millrace::trainer::hlo {
namespace {

/// All dimensions but the last: those of a channel's places.
std::vector<std::int64_t> places_of(const Tensor& x) {
  std::vector<std::int64_t> dimensions = dimensions_of(x);
  dimensions.pop_back();
  return dimensions;
}

}  // namespace

LayerResults layer(const nn::LayerNorm& layer, const LayerArguments& at) {
  const Tensor x = float32(at.inputs[0]);
  const std::int64_t channels = x.rank() - 1;
  const auto count = static_cast<double>(x.shape.back());
  const auto mean_of = [=, shape = x.shape, places = places_of(x)](const Tensor& values) {
    return broadcast(sum(values, {channels}) / count, shape, places);
  };
  const auto wide = [=, shape = x.shape](const Tensor& one) { return along(one, channels, shape); };
  const Tensor centred = x - mean_of(x);
  const Tensor inverse = rsqrt(mean_of(centred * centred) + static_cast<double>(layer.epsilon));
  const Tensor normal = centred * inverse;
  return {.output = normal * wide(*at.weight) + wide(*at.bias), .backward = [=](const Tensor& dy) {
            LayerGradients gradients{.inputs = {std::nullopt}};
            gradients.bias = sum(dy, places_of(dy));
            gradients.weight = sum(dy * normal, places_of(dy));
            if (at.wants_gradient[0]) {
              const Tensor g = dy * wide(*at.weight);
              gradients.inputs[0] = inverse * (g - mean_of(g) - normal * mean_of(g * normal));
            }
            return gradients;
          }};
}

// A weight (C, 1, 1).
LayerResults layer(const nn::ChannelScale& /*layer*/, const LayerArguments& at) {
  const Tensor x = float32(at.inputs[0]);
  const Tensor weight = float32(at.operand(reshape(*at.weight, {x.shape.back()})));
  const auto wide = [=, shape = x.shape](const Tensor& one) {
    return along(one, static_cast<std::int64_t>(shape.size()) - 1, shape);
  };
  return {.output = x * wide(weight), .backward = [=](const Tensor& dy) {
            LayerGradients gradients{.inputs = {dy * wide(weight)}};
            gradients.weight = reshape(sum(dy * x, places_of(dy)), at.weight->shape);
            return gradients;
          }};
}

}  // namespace millrace::trainer::hlo

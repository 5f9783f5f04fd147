#include <algorithm>

#include "trainer/hlo/layers/layers.h"

namespace millrace::trainer::hlo {
namespace {

constexpr std::int64_t kChannels = 3;
const std::vector<std::int64_t> kOthers = {0, 1, 2};

struct Statistics {
  Tensor mean;
  Tensor variance;
};

/// The next running statistics: mean, unbiased variance, number of batches.
std::vector<Tensor> tracked(const nn::BatchNorm& layer, const std::vector<Tensor>& before,
                            const Statistics& batch, double count) {
  const double share = static_cast<double>(layer.momentum);
  const double unbiased = count / std::max(1.0, count - 1.0);
  const auto mixed = [share](const Tensor& old, const Tensor& now) {
    return old * (1.0 - share) + now * share;
  };
  return {mixed(before[0], batch.mean), mixed(before[1], batch.variance * unbiased),
          before[2] + 1.0};
}

}  // namespace

LayerResults layer(const nn::BatchNorm& layer, const LayerArguments& at) {
  const Tensor x = float32(at.inputs[0]);
  const auto count = static_cast<double>(x.shape[0] * x.shape[1] * x.shape[2]);
  Statistics used{at.buffers[0], at.buffers[1]};
  LayerResults results;
  if (at.training) {
    used.mean = sum(x, kOthers) / count;
    const Tensor centred = x - along(used.mean, kChannels, x.shape);
    used.variance = sum(centred * centred, kOthers) / count;
    results.buffers = tracked(layer, at.buffers, used, count);
  }
  const Tensor inverse = rsqrt(used.variance + static_cast<double>(layer.epsilon));
  const Tensor scale = *at.weight * inverse;
  const auto spread = [&x](const Tensor& channel) { return along(channel, kChannels, x.shape); };
  const Tensor centred = x - spread(used.mean);
  results.output = centred * spread(scale) + spread(*at.bias);
  results.backward = [=](const Tensor& dy) {
    const auto wide = [&dy](const Tensor& channel) { return along(channel, kChannels, dy.shape); };
    const Tensor normed = centred * wide(inverse);
    LayerGradients gradients{.inputs = {std::nullopt}};
    const Tensor of_bias = sum(dy, kOthers);
    const Tensor of_weight = sum(dy * normed, kOthers);
    gradients.bias = of_bias;
    gradients.weight = of_weight;
    if (at.wants_gradient[0]) {
      const Tensor common = wide(of_bias / count) + normed * wide(of_weight / count);
      gradients.inputs[0] = wide(scale) * (dy - common);
    }
    return gradients;
  };
  return results;
}

}  // namespace millrace::trainer::hlo

#include <functional>

#include "io/base/rng.h"
#include "trainer/hlo/detail/philox.h"
#include "trainer/hlo/layers/layers.h"
#include "trainer/nn/plan.h"

namespace millrace::trainer::hlo {
namespace {

/// `numbers` of each sample are drawn; `keep_of` makes flags of x's shape of them.
LayerResults dropped(const LayerArguments& at, float probability, std::int64_t numbers,
                     const std::function<Tensor(const Tensor&)>& keep_of) {
  if (!at.training || probability == 0.0F) {
    return {.output = at.inputs[0],
            .backward = [](const Tensor& dy) { return LayerGradients{.inputs = {dy}}; }};
  }
  const Tensor x = float32(at.inputs[0]);
  const Tensor drawn =
      uniform(*at.key, {.stream = static_cast<std::uint32_t>(at.number), .purpose = nn::kDropout},
              {x.shape[0], numbers});
  const Tensor keep =
      keep_of(compare(drawn, Order::kGreaterOrEqual, static_cast<double>(probability)));
  const auto scale = static_cast<double>(1.0F / (1.0F - probability));
  const auto kept = [=](const Tensor& values) { return select(keep, values * scale, 0.0); };
  return {.output = kept(x),
          .backward = [kept](const Tensor& dy) { return LayerGradients{.inputs = {kept(dy)}}; }};
}

}  // namespace

// The CPU's choices of features: a keyed generator of each sample, whose numbers are drawn in the
// order of its values. Of images they are drawn in the order (H, W, C); the CPU's order depends on
// its layout.
LayerResults layer(const nn::Dropout& layer, const LayerArguments& at) {
  return dropped(
      at, layer.probability, nn::num_values(at.node.shape),
      [shape = at.inputs[0].shape](const Tensor& flags) { return reshape(flags, shape); });
}

// One number of each sample.
LayerResults layer(const nn::StochasticDepth& layer, const LayerArguments& at) {
  const Shape shape = at.inputs[0].shape;
  return dropped(at, layer.probability, 1, [shape](const Tensor& flags) {
    return broadcast(reshape(flags, {shape[0]}), shape, {0});
  });
}

}  // namespace millrace::trainer::hlo

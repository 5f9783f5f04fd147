#include <cmath>
#include <vector>

#include "io/base/rng.h"
#include "trainer/hlo/detail/philox.h"
#include "trainer/hlo/layers/layers.h"
#include "trainer/nn/plan.h"

namespace millrace::trainer::hlo {

// The CPU's choices of features: a keyed generator of each sample, whose numbers are drawn in the
// order of its values. Of images they are drawn in the order (H, W, C); the CPU's order depends on
// its layout.
LayerResults layer(const nn::Dropout& layer, const LayerArguments& at) {
  const Tensor x = float32(at.inputs[0]);
  if (!at.training || layer.probability == 0.0F) {
    return {.output = at.inputs[0],
            .backward = [](const Tensor& dy) { return LayerGradients{.inputs = {dy}}; }};
  }
  const std::int64_t each = nn::num_values(at.node.shape);
  const Tensor numbers =
      uniform(*at.key, {.stream = static_cast<std::uint32_t>(at.number), .purpose = nn::kDropout},
              {x.shape[0], each});
  const Tensor keep = reshape(
      compare(numbers, Order::kGreaterOrEqual, static_cast<double>(layer.probability)), x.shape);
  const auto scale = static_cast<double>(1.0F / (1.0F - layer.probability));
  const auto dropped = [=](const Tensor& values) { return select(keep, values * scale, 0.0); };
  return {.output = dropped(x), .backward = [dropped](const Tensor& dy) {
            return LayerGradients{.inputs = {dropped(dy)}};
          }};
}

}  // namespace millrace::trainer::hlo

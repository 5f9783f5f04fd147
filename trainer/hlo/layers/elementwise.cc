#include <cmath>
#include <numbers>

#include "trainer/hlo/layers/layers.h"

namespace millrace::trainer::hlo {
namespace {

/// By a polynomial with an error of 1.5e-7. Source: Abramowitz and Stegun, 7.1.26.
Tensor error_function(const Tensor& x) {
  const Tensor t = 1.0 / (1.0 + 0.3275911 * abs(x));
  const Tensor series =
      ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) *
      t;
  return sign(x) * (1.0 - series * exp(-(x * x)));
}

/// (x + 3) / 6 within 0 and 1, and where it is between them.
Tensor hard_gate(const Tensor& x) { return min(max(x / 6.0 + 0.5, 0.0), 1.0); }
Tensor is_rising(const Tensor& x) {
  return both(compare(x, Order::kGreater, -3.0), compare(x, Order::kLess, 3.0));
}

/// A value, and its derivative by x once it is asked for.
struct Curve {
  Tensor value;
  std::function<Tensor()> slope;
};

Curve curve_of(const nn::Activation& layer, const Tensor& x) {
  switch (layer.kind) {
    case nn::ActivationKind::kLeakyRelu: {
      const auto below = static_cast<double>(layer.slope);
      const auto flags = [x] { return compare(x, Order::kGreater, 0.0); };
      return {select(flags(), x, below * x),
              [=] { return select(flags(), splat_like(x, 1.0), below); }};
    }
    case nn::ActivationKind::kSigmoid: {
      const Tensor y = logistic(x);
      return {y, [y] { return y * (1.0 - y); }};
    }
    case nn::ActivationKind::kSilu: {
      const Tensor gate = logistic(x);
      return {x * gate, [=] { return gate * (1.0 + x * (1.0 - gate)); }};
    }
    case nn::ActivationKind::kHardSwish:
      return {x * hard_gate(x), [x] {
                const Tensor above =
                    select(compare(x, Order::kGreaterOrEqual, -3.0), x / 3.0 + 0.5, 0.0);
                return select(compare(x, Order::kGreaterOrEqual, 3.0), splat_like(x, 1.0), above);
              }};
    case nn::ActivationKind::kHardSigmoid:
      return {hard_gate(x), [x] { return select(is_rising(x), splat_like(x, 1.0 / 6.0), 0.0); }};
    case nn::ActivationKind::kGelu:
      break;
  }
  const Tensor share = 0.5 * (1.0 + error_function(x * std::numbers::sqrt2 * 0.5));
  return {x * share, [=] {
            const double peak = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
            return share + x * (peak * exp(-0.5 * (x * x)));
          }};
}

}  // namespace

// The derivative at 0 is 0.
LayerResults layer(const nn::Relu& /*layer*/, const LayerArguments& at) {
  const Tensor y = max(at.inputs[0], 0.0);
  return {.output = y, .backward = [y](const Tensor& dy) {
            return LayerGradients{.inputs = {select(compare(y, Order::kGreater, 0.0), dy, 0.0)}};
          }};
}

LayerResults layer(const nn::Activation& layer, const LayerArguments& at) {
  const Curve curve = curve_of(layer, float32(at.inputs[0]));
  return {.output = curve.value, .backward = [curve](const Tensor& dy) {
            return LayerGradients{.inputs = {dy * curve.slope()}};
          }};
}

LayerResults layer(const nn::Softmax& /*layer*/, const LayerArguments& at) {
  const Tensor x = float32(at.inputs[0]);
  const std::int64_t channels = x.rank() - 1;
  std::vector<std::int64_t> others = dimensions_of(x);
  others.pop_back();
  const auto wide = [=](const Tensor& one) { return broadcast(one, x.shape, others); };
  const Tensor powers = exp(x - wide(largest(x, {channels})));
  const Tensor y = powers / wide(sum(powers, {channels}));
  return {.output = y, .backward = [=](const Tensor& dy) {
            return LayerGradients{.inputs = {y * (dy - wide(sum(dy * y, {channels})))}};
          }};
}

LayerResults layer(const nn::Add& /*layer*/, const LayerArguments& at) {
  return {.output = float32(at.inputs[0]) + float32(at.inputs[1]),
          .backward = [](const Tensor& dy) {
            return LayerGradients{.inputs = {dy, dy}};
          }};
}

// Of (N, H, W, C) and (N, 1, 1, C).
LayerResults layer(const nn::Scale& /*layer*/, const LayerArguments& at) {
  const Tensor x = float32(at.inputs[0]);
  const Tensor factors =
      broadcast(reshape(float32(at.inputs[1]), {x.shape[0], x.shape[3]}), x.shape, {0, 3});
  return {.output = x * factors, .backward = [=, own = at.inputs[1].shape](const Tensor& dy) {
            return LayerGradients{.inputs = {dy * factors, reshape(sum(dy * x, {1, 2}), own)}};
          }};
}

}  // namespace millrace::trainer::hlo

#include "trainer/hlo/layers/layers.h"

namespace millrace::trainer::hlo {
namespace {

/// Values of a sample in (C, H, W) order, which PyTorch flattens and reshapes.
Tensor in_plain_order(const Tensor& x) { return x.rank() == 4 ? transpose(x, {0, 3, 1, 2}) : x; }

/// `shape` is of a sample: (C, H, W), or (F).
Tensor from_plain_order(const Tensor& x, const nn::Shape& shape) {
  Shape plain = {x.shape[0]};
  plain.insert(plain.end(), shape.begin(), shape.end());
  const Tensor y = reshape(x, plain);
  return shape.size() == 3 ? transpose(y, {0, 2, 3, 1}) : y;
}

/// A sample's shape, of (N, H, W, C) or (N, F).
nn::Shape sample_shape(const Tensor& x) {
  if (x.rank() == 4) return {x.shape[3], x.shape[1], x.shape[2]};
  return {x.shape[1]};
}

LayerResults reshaped(const LayerArguments& at) {
  const nn::Shape before = sample_shape(at.inputs[0]);
  return {.output = from_plain_order(in_plain_order(at.inputs[0]), at.node.shape),
          .backward = [before](const Tensor& dy) {
            return LayerGradients{.inputs = {from_plain_order(in_plain_order(dy), before)}};
          }};
}

}  // namespace

LayerResults layer(const nn::Flatten& /*layer*/, const LayerArguments& at) { return reshaped(at); }
LayerResults layer(const nn::Reshape& /*layer*/, const LayerArguments& at) { return reshaped(at); }

LayerResults layer(const nn::Concat& /*layer*/, const LayerArguments& at) {
  const std::vector<Tensor> parts = at.inputs;
  const std::int64_t channels = parts[0].rank() - 1;
  return {.output = concatenate(parts, channels), .backward = [=](const Tensor& dy) {
            LayerGradients gradients;
            std::int64_t begin = 0;
            for (const Tensor& part : parts) {
              const std::int64_t end = begin + part.shape.back();
              gradients.inputs.push_back(slice(dy, channels, begin, end));
              begin = end;
            }
            return gradients;
          }};
}

}  // namespace millrace::trainer::hlo

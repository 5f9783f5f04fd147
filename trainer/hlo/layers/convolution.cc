#include <string>

#include "trainer/hlo/layers/layers.h"

namespace millrace::trainer::hlo {
namespace {

using Pair = std::array<std::int64_t, 2>;

Pair pair(const nn::Extent2d& extent) { return {extent.height, extent.width}; }

/// Height and width of (N, H, W, C).
Pair pixels(const Tensor& image) { return {image.shape[1], image.shape[2]}; }

/// The distance between a kernel's first and last value, on the image.
Pair reach(const Tensor& kernel, const Pair& dilation) {
  return {(kernel.shape[2] - 1) * dilation[0], (kernel.shape[3] - 1) * dilation[1]};
}

struct Geometry {
  Pair stride;
  Pair padding;
  Pair dilation;
  std::int64_t groups = 1;
};

/// (O, I / groups, H, W), turned around, with inputs and outputs exchanged: (O / groups, I, H, W).
Tensor turned(const Tensor& kernel, std::int64_t groups) {
  const Tensor back = reverse(kernel, {2, 3});
  if (groups == 1) return back;
  const Shape& s = kernel.shape;
  const Tensor parts = reshape(back, {groups, s[0] / groups, s[1], s[2], s[3]});
  return reshape(transpose(parts, {1, 0, 2, 3, 4}), {s[0] / groups, groups * s[1], s[2], s[3]});
}

Tensor forward(const Tensor& x, const Tensor& kernel, const Geometry& shape) {
  return convolution(x, kernel,
                     {.stride = shape.stride,
                      .low = shape.padding,
                      .high = shape.padding,
                      .kernel_dilation = shape.dilation,
                      .feature_groups = shape.groups});
}

/// The gradient of what forward() read: each output's, spread over its window. `size` is the
/// image's.
Tensor spread(const Tensor& dy, const Tensor& kernel, const Geometry& shape, const Pair& size) {
  ConvolutionOptions options{.kernel = "io01",
                             .input_dilation = shape.stride,
                             .kernel_dilation = shape.dilation,
                             .feature_groups = shape.groups};
  const Pair far = reach(kernel, shape.dilation);
  for (std::size_t i = 0; i < 2; ++i) {
    options.low[i] = far[i] - shape.padding[i];
    const std::int64_t dilated = (pixels(dy)[i] - 1) * shape.stride[i] + 1;
    options.high[i] = size[i] + far[i] - dilated - options.low[i];
  }
  return convolution(dy, turned(kernel, shape.groups), options);
}

/// The kernel's gradient, (O, I / groups, H, W): the image's channels are the batch.
Tensor kernel_gradient(const Tensor& x, const Tensor& dy, const Tensor& kernel,
                       const Geometry& shape) {
  ConvolutionOptions options{.input = "f01b",
                             .kernel = "i01o",
                             .output = "fb01",
                             .stride = shape.dilation,
                             .low = shape.padding,
                             .kernel_dilation = shape.stride,
                             .batch_groups = shape.groups};
  const Pair far = reach(kernel, shape.dilation);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t dilated = (pixels(dy)[i] - 1) * shape.stride[i] + 1;
    options.high[i] = far[i] + dilated - pixels(x)[i] - shape.padding[i];
  }
  return convolution(x, dy, options);
}

Tensor with_bias(const Tensor& y, const std::optional<Tensor>& bias) {
  return bias ? y + along(*bias, y.rank() - 1, y.shape) : y;
}

/// Over all but the last dimension.
Tensor bias_gradient(const Tensor& dy) {
  std::vector<std::int64_t> others = dimensions_of(dy);
  others.pop_back();
  return sum(dy, others);
}

}  // namespace

LayerResults layer(const nn::Conv2d& layer, const LayerArguments& at) {
  const Geometry shape{.stride = pair(layer.stride),
                       .padding = pair(layer.padding),
                       .dilation = pair(layer.dilation),
                       .groups = layer.groups};
  const Tensor x = at.operand(at.inputs[0]);
  const Shape own = at.weight->shape;
  const Shape square = layer.flat ? Shape{own[0], own[1], 1, 1} : own;
  const Tensor kernel = reshape(at.operand(*at.weight), square);
  return {.output = with_bias(forward(x, kernel, shape), at.bias),
          .backward = [=](const Tensor& dy) {
            const Tensor incoming = at.operand(dy);
            LayerGradients gradients{.inputs = {std::nullopt}};
            gradients.weight = reshape(kernel_gradient(x, incoming, kernel, shape), own);
            if (at.bias) gradients.bias = bias_gradient(dy);
            if (at.wants_gradient[0])
              gradients.inputs[0] = spread(incoming, kernel, shape, pixels(x));
            return gradients;
          }};
}

// A convolution's backward pass: its output is the image that the convolution would have read. The
// weight is (I, O, H, W), as a convolution's from O to I channels.
LayerResults layer(const nn::ConvTranspose2d& layer, const LayerArguments& at) {
  const Geometry shape{
      .stride = pair(layer.stride), .padding = pair(layer.padding), .dilation = {1, 1}};
  const Tensor x = at.operand(at.inputs[0]);
  const Tensor kernel = at.operand(*at.weight);
  const Pair size = {at.node.shape[1], at.node.shape[2]};
  return {.output = with_bias(spread(x, kernel, shape, size), at.bias),
          .backward = [=](const Tensor& dy) {
            const Tensor incoming = at.operand(dy);
            LayerGradients gradients{.inputs = {std::nullopt}};
            gradients.weight = kernel_gradient(incoming, x, kernel, shape);
            if (at.bias) gradients.bias = bias_gradient(dy);
            if (at.wants_gradient[0]) gradients.inputs[0] = forward(incoming, kernel, shape);
            return gradients;
          }};
}

LayerResults layer(const nn::Linear& /*layer*/, const LayerArguments& at) {
  const Tensor x = at.operand(at.inputs[0]);
  const Tensor weight = at.operand(*at.weight);  // (O, I)
  return {.output = with_bias(dot(x, 1, weight, 1), at.bias), .backward = [=](const Tensor& dy) {
            const Tensor incoming = at.operand(dy);
            LayerGradients gradients{.inputs = {std::nullopt}};
            gradients.weight = dot(incoming, 0, x, 0);
            if (at.bias) gradients.bias = bias_gradient(dy);
            if (at.wants_gradient[0]) gradients.inputs[0] = dot(incoming, 1, weight, 0);
            return gradients;
          }};
}

}  // namespace millrace::trainer::hlo

#include <algorithm>
#include <vector>

#include "trainer/hlo/layers/layers.h"

namespace millrace::trainer::hlo {
namespace {

using Pair = std::array<std::int64_t, 2>;

template <typename Pool>
Window window_of(const Pool& pool) {
  const Pair padding = {pool.padding.height, pool.padding.width};
  return {.size = {pool.kernel.height, pool.kernel.width},
          .stride = {pool.stride.height, pool.stride.width},
          .low = padding,
          .high = padding};
}

/// Each window's value at every place of the image that it covers, summed.
Tensor spread_windows(const Tensor& dy, const Window& window, const Shape& image) {
  Padding around{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t dilated = (dy.shape[i + 1] - 1) * window.stride[i] + 1;
    around.interior[i + 1] = window.stride[i] - 1;
    around.low[i + 1] = window.size[i] - 1 - window.low[i];
    around.high[i + 1] = image[i + 1] + window.size[i] - 1 - dilated - around.low[i + 1];
  }
  return window_sum(pad(dy, around), {.size = window.size});
}

/// PyTorch's adaptive windows as a matrix (outputs, inputs) of means.
std::vector<float> adaptive_means(std::int64_t outputs, std::int64_t inputs) {
  std::vector<float> matrix(static_cast<std::size_t>(outputs * inputs));
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::int64_t begin = i * inputs / outputs;
    const std::int64_t end = ((i + 1) * inputs + outputs - 1) / outputs;
    for (std::int64_t j = begin; j < end; ++j)
      matrix[static_cast<std::size_t>(i * inputs + j)] = 1.0F / static_cast<float>(end - begin);
  }
  return matrix;
}

/// PyTorch's align_corners = False: an output's place between two inputs, held at the edges.
std::vector<float> bilinear_shares(std::int64_t outputs, std::int64_t inputs) {
  std::vector<float> matrix(static_cast<std::size_t>(outputs * inputs));
  const double scale = static_cast<double>(inputs) / static_cast<double>(outputs);
  for (std::int64_t i = 0; i < outputs; ++i) {
    const double place = std::max(0.0, (static_cast<double>(i) + 0.5) * scale - 0.5);
    const auto low = std::min(inputs - 1, static_cast<std::int64_t>(place));
    const std::int64_t high = std::min(inputs - 1, low + 1);
    const auto share = static_cast<float>(place - static_cast<double>(low));
    matrix[static_cast<std::size_t>(i * inputs + low)] += 1.0F - share;
    matrix[static_cast<std::size_t>(i * inputs + high)] += share;
  }
  return matrix;
}

/// Rows and columns of images, resampled by one matrix (outputs, inputs) each.
struct Resampling {
  Tensor rows, columns;
};

Tensor resample(const Tensor& x, const Resampling& by) {
  const Tensor rows = dot(x, 1, by.rows, 1);       // (N, W, C, H')
  const Tensor all = dot(rows, 1, by.columns, 1);  // (N, C, H', W')
  return transpose(all, {0, 2, 3, 1});
}

Tensor resample_back(const Tensor& dy, const Resampling& by) {
  const Tensor rows = dot(dy, 1, by.rows, 0);
  return transpose(dot(rows, 1, by.columns, 0), {0, 2, 3, 1});
}

template <typename Shares>
LayerResults resampled(const LayerArguments& at, const Shares& shares) {
  const Tensor x = float32(at.inputs[0]);
  const nn::Shape& out = at.node.shape;
  const auto matrix = [&](std::int64_t outputs, std::int64_t inputs) {
    return constant(at.builder(), shares(outputs, inputs), {outputs, inputs});
  };
  const Resampling by{matrix(out[1], x.shape[1]), matrix(out[2], x.shape[2])};
  return {.output = resample(x, by), .backward = [by](const Tensor& dy) {
            return LayerGradients{.inputs = {resample_back(dy, by)}};
          }};
}

LayerResults global_mean(const LayerArguments& at) {
  const Tensor x = float32(at.inputs[0]);
  const Shape one = {x.shape[0], 1, 1, x.shape[3]};
  const auto count = static_cast<double>(x.shape[1] * x.shape[2]);
  return {.output = reshape(sum(x, {1, 2}) / count, one), .backward = [=](const Tensor& dy) {
            const Tensor each = reshape(dy / count, {x.shape[0], x.shape[3]});
            return LayerGradients{.inputs = {broadcast(each, x.shape, {0, 3})}};
          }};
}

LayerResults repeated(const LayerArguments& at, std::int64_t factor) {
  const Tensor x = at.inputs[0];
  const Shape& s = x.shape;
  const Shape apart = {s[0], s[1], factor, s[2], factor, s[3]};
  const Shape whole = {s[0], s[1] * factor, s[2] * factor, s[3]};
  return {.output = reshape(broadcast(x, apart, {0, 1, 3, 5}), whole),
          .backward = [apart](const Tensor& dy) {
            return LayerGradients{.inputs = {sum(reshape(dy, apart), {2, 4})}};
          }};
}

}  // namespace

LayerResults layer(const nn::MaxPool2d& layer, const LayerArguments& at) {
  const Window window = window_of(layer);
  const Tensor x = at.inputs[0];
  return {.output = window_max(x, window), .backward = [=](const Tensor& dy) {
            return LayerGradients{.inputs = {scatter_to_max(float32(x), dy, window)}};
          }};
}

LayerResults layer(const nn::AvgPool2d& layer, const LayerArguments& at) {
  const Window window = window_of(layer);
  const Tensor x = float32(at.inputs[0]);
  const auto count = static_cast<double>(window.size[0] * window.size[1]);
  return {.output = window_sum(x, window) / count, .backward = [=](const Tensor& dy) {
            return LayerGradients{.inputs = {spread_windows(dy / count, window, x.shape)}};
          }};
}

LayerResults layer(const nn::AdaptiveAvgPool2d& /*layer*/, const LayerArguments& at) {
  const Shape& in = at.inputs[0].shape;
  const nn::Shape& out = at.node.shape;
  if (out[1] == 1 && out[2] == 1) return global_mean(at);
  if (out[1] == in[1] && out[2] == in[2]) {
    return {.output = at.inputs[0],
            .backward = [](const Tensor& dy) { return LayerGradients{.inputs = {dy}}; }};
  }
  return resampled(at, adaptive_means);
}

LayerResults layer(const nn::Upsample& layer, const LayerArguments& at) {
  if (layer.mode == nn::UpsampleMode::kNearest) return repeated(at, layer.factor);
  return resampled(at, bilinear_shares);
}

}  // namespace millrace::trainer::hlo

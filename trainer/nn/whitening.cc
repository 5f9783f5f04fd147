#include "trainer/nn/whitening.h"

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>

#include "io/base/check.h"
#include "io/base/error.h"

namespace millrace::trainer::nn {
namespace {

using Patches = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Moments = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

std::size_t size_of(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

std::vector<WhiteningLayer> whitening_layers(const Graph& graph) {
  std::vector<WhiteningLayer> layers;
  for (const Node& node : graph.nodes()) {
    const auto* conv = std::get_if<Conv2d>(&node.layer);
    if (conv == nullptr || conv->init != Init::kWhitening) continue;
    const auto input = std::ranges::find(graph.inputs(), node.inputs[0].node, &Value::node);
    layers.push_back({.input = size_of(input - graph.inputs().begin()),
                      .weight = node.weight,
                      .image = graph.node(*input).shape,
                      .conv = *conv});
  }
  return layers;
}

PatchMoments::PatchMoments(const WhiteningLayer& layer)
    : layer_(layer),
      kernel_height_(size_of(layer.conv.kernel.height)),
      kernel_width_(size_of(layer.conv.kernel.width)),
      values_(size_of(layer.image[0]) * kernel_height_ * kernel_width_),
      sums_(values_ * values_ + 1) {}

// In the order of a filter's weights, (C, height, width).
void PatchMoments::copy_patch(std::span<const float> image, std::size_t top, std::size_t left,
                              float* patch) const {
  const std::size_t channels = size_of(layer_.image[0]);
  const std::size_t width = size_of(layer_.image[2]);
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t y = top; y < top + kernel_height_; ++y)
      for (std::size_t x = left; x < left + kernel_width_; ++x)
        *patch++ = image[(y * width + x) * channels + c];
}

void PatchMoments::add(std::span<const float> image) {
  MILLRACE_CHECK(image.size() == size_of(num_values(layer_.image)),
                 "a picture of the input's size");
  const std::size_t rows = size_of(layer_.image[1]) - kernel_height_ + 1;
  const std::size_t columns = size_of(layer_.image[2]) - kernel_width_ + 1;
  Patches patches(rows * columns, values_);
  for (std::size_t y = 0; y < rows; ++y)
    for (std::size_t x = 0; x < columns; ++x)
      copy_patch(image, y, x, patches.row(static_cast<Eigen::Index>(y * columns + x)).data());
  const Patches products = patches.transpose() * patches;
  const auto values = static_cast<Eigen::Index>(values_);
  Eigen::Map<Moments>(sums_.data(), values, values) += products.cast<double>();
  sums_.back() += static_cast<double>(rows * columns);
}

std::vector<float> PatchMoments::filters() const {
  if (!(sums_.back() > 0.0))
    throw Error(ErrorCode::kNotFound, "there is no picture to compute whitening filters from");
  const auto values = static_cast<Eigen::Index>(values_);
  const Moments moments = Eigen::Map<const Moments>(sums_.data(), values, values) / sums_.back();
  const Eigen::SelfAdjointEigenSolver<Moments> solver(moments);
  std::vector<float> filters(2 * values_ * values_);
  Eigen::Map<Patches> all(filters.data(), 2 * values, values);
  for (Eigen::Index i = 0; i < values; ++i) {
    const double scale = 1.0 / std::sqrt(solver.eigenvalues()[i] + kEpsilon);
    all.row(i) = (solver.eigenvectors().col(i).transpose() * scale).cast<float>();
    all.row(values + i) = -all.row(i);
  }
  return filters;
}

}  // namespace millrace::trainer::nn

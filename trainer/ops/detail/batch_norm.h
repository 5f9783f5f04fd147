// Shapes and constants of both passes of batch normalisation, for one block of channels.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "trainer/ops/detail/kernels.h"

namespace millrace::trainer::ops {

using Lanes = std::array<float, 16>;  // one value per channel of a block
using Sums = std::array<double, 16>;

// The planes of one block of channels: image n's is `pixels * block` values at n * stride.
struct Planes {
  std::int64_t images;
  std::int64_t values;  // pixels * block
  std::int64_t stride;
  std::int64_t first;
};

inline Planes planes_of(const ImageShape& shape, std::int64_t block) {
  const std::int64_t values = shape.pixels * shape.block;
  return {shape.images, values, values * shape.blocks, values * block};
}

inline Lanes lanes_of(std::span<const float> values, std::int64_t first, std::int64_t block) {
  Lanes lanes{};
  for (std::int64_t i = 0; i < block && first + i < static_cast<std::int64_t>(values.size()); ++i) {
    lanes[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>(first + i)];
  }
  return lanes;
}

// Batch norm as two numbers per channel: y = x * scale + shift.
struct Affine {
  Lanes scale{};
  Lanes shift{};
};

inline Affine affine_of(const Lanes& gamma, const Lanes& beta, const Lanes& mean,
                        const Lanes& inverse) {
  Affine affine;
  for (std::size_t i = 0; i < affine.scale.size(); ++i) {
    affine.scale[i] = gamma[i] * inverse[i];
    affine.shift[i] = beta[i] - mean[i] * affine.scale[i];
  }
  return affine;
}

}  // namespace millrace::trainer::ops

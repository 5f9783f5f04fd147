// Shapes, sums and constants of both passes of batch normalisation, and what follows from the sums.
//
// Images in blocks are handled one block of channels at a time; channels-last ones in chunks of
// rows, a row being the channels of one pixel. A chunk's sums are its own, and are added in the
// order of the chunks, so that results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "trainer/ops/detail/kernels.h"

namespace millrace::trainer::ops {

inline constexpr std::int64_t kLanes = 16;
using Lanes = std::array<float, kLanes>;  // one value per channel of a block
using Sums = std::array<double, kLanes>;

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

// A chunk of rows.
struct Rows {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t channels;
};

// Up to 64 chunks, so that many threads have work, of 32 rows or more.
inline std::int64_t chunks_of(const ImageShape& shape) {
  return std::clamp(shape.rows() / 32, std::int64_t{1}, std::int64_t{64});
}

inline Rows rows_of(const ImageShape& shape, std::int64_t chunk) {
  const std::int64_t chunks = chunks_of(shape);
  return {chunk * shape.rows() / chunks, (chunk + 1) * shape.rows() / chunks, shape.channels};
}

// As many as there are, else 0.
inline Lanes lanes_of(std::span<const float> values, std::int64_t first,
                      std::int64_t block = kLanes) {
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

// Of both passes' arguments, for the channels from `first` on.
template <class Arguments>
Affine affine_of(const Arguments& args, std::int64_t first, std::int64_t block = kLanes) {
  return affine_of(lanes_of(args.gamma, first, block), lanes_of(args.beta, first, block),
                   lanes_of(args.mean, first, block),
                   lanes_of(args.inverse_deviation, first, block));
}

struct Statistics {
  Lanes mean{};
  Lanes variance{};
};

// From sums of x - pivot and of its square.
inline Statistics statistics_of(const Lanes& pivot, const Sums& first, const Sums& second,
                                double count) {
  Statistics statistics;
  for (std::size_t i = 0; i < pivot.size(); ++i) {
    const double off = first[i] / count;
    statistics.mean[i] = static_cast<float>(static_cast<double>(pivot[i]) + off);
    statistics.variance[i] = static_cast<float>(std::max(second[i] / count - off * off, 0.0));
  }
  return statistics;
}

inline void keep_statistics(const BatchNormForward& args, const Statistics& statistics,
                            std::int64_t first, std::int64_t block, double count) {
  const auto unbias = static_cast<float>(count / std::max(count - 1.0, 1.0));
  for (std::int64_t i = 0; i < block; ++i) {
    const auto lane = static_cast<std::size_t>(i);
    const auto channel = static_cast<std::size_t>(first + i);
    if (channel >= args.mean.size()) return;
    args.mean[channel] = statistics.mean[lane];
    args.inverse_deviation[channel] = 1.0F / std::sqrt(statistics.variance[lane] + args.epsilon);
    if (channel >= args.gamma.size()) continue;
    float& mean = args.running_mean[channel];
    float& variance = args.running_variance[channel];
    mean += args.momentum * (statistics.mean[lane] - mean);
    variance += args.momentum * (statistics.variance[lane] * unbias - variance);
  }
}

// dx = a * g + b * x + c.
struct Slopes {
  Lanes a{};
  Lanes b{};
  Lanes c{};
};

// Writes the parameters' gradients and returns the slopes of dx. A block may have fewer channels
// than Lanes: the values after them are the next block's, which another thread may have written.
inline Slopes finish_sums(const BatchNormBackward& args, const Sums& sum, const Sums& sum_x,
                          std::int64_t first, std::int64_t block, double count) {
  const Lanes gamma = lanes_of(args.gamma, first, block);
  const Lanes mean = lanes_of(args.mean, first, block);
  const Lanes inverses = lanes_of(args.inverse_deviation, first, block);
  Slopes slopes;
  for (std::size_t i = 0; i < static_cast<std::size_t>(block); ++i) {
    const double inverse = static_cast<double>(inverses[i]);
    const double dgamma = sum_x[i] * inverse;
    const double a = static_cast<double>(gamma[i]) * inverse;
    const double b = -a * inverse * dgamma / count;
    slopes.a[i] = static_cast<float>(a);
    slopes.b[i] = static_cast<float>(b);
    slopes.c[i] = static_cast<float>(-a * sum[i] / count - b * static_cast<double>(mean[i]));
    const auto channel = static_cast<std::size_t>(first) + i;
    if (channel >= args.dgamma.size()) continue;
    args.dgamma[channel] = static_cast<float>(dgamma);
    args.dbeta[channel] = static_cast<float>(sum[i]);
  }
  return slopes;
}

// One value per channel each.
struct RowAffine {
  float* scale;
  float* shift;
};
struct RowSlopes {
  float* a;
  float* b;
  float* c;
};

// The scratch of channels-last batch norm: arrays of one value per channel, then two sums of each
// chunk.
class RowScratch {
 public:
  static constexpr std::int64_t kArrays = 5;

  RowScratch(std::span<float> memory, std::int64_t channels)
      : data_(memory.data()), channels_(channels) {}

  RowAffine affine() const { return {array(0), array(1)}; }
  RowSlopes slopes() const { return {array(2), array(3), array(4)}; }
  float* pivot() const { return array(2); }  // the forward pass has no slopes
  float* sums(std::int64_t chunk) const { return array(kArrays + 2 * chunk); }

  // The sums over chunks of the kLanes channels from `first` on: 0 of the first sum, 1 of the
  // other.
  Sums total(std::int64_t chunks, std::int64_t sum, std::int64_t first) const {
    Sums total{};
    const std::int64_t count = std::min(kLanes, channels_ - first);
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const float* part = sums(chunk) + sum * channels_ + first;
      for (std::int64_t i = 0; i < count; ++i)
        total[static_cast<std::size_t>(i)] += static_cast<double>(part[i]);
    }
    return total;
  }
  void put(const Slopes& of, std::int64_t first) const {
    put(of.a, slopes().a, first);
    put(of.b, slopes().b, first);
    put(of.c, slopes().c, first);
  }
  // Of both passes' arguments.
  template <class Arguments>
  void put_affine(const Arguments& args) const {
    for (std::int64_t first = 0; first < channels_; first += kLanes) {
      const Affine of = affine_of(args, first);
      put(of.scale, affine().scale, first);
      put(of.shift, affine().shift, first);
    }
  }

 private:
  void put(const Lanes& lanes, float* array, std::int64_t first) const {
    std::copy_n(lanes.begin(), std::min(kLanes, channels_ - first), array + first);
  }
  float* array(std::int64_t index) const { return data_ + index * channels_; }

  float* data_;
  std::int64_t channels_;
};

}  // namespace millrace::trainer::ops

// Batch normalisation, one block of channels at a time: both passes over a block follow each other
// while it is still in the cache, and no sum is shared between threads.
//
// Source: Ioffe, Szegedy, "Batch normalization" (2015). With g = dy after the ReLU, M values a
// channel and x^ = (x - mean) r: dx = gamma r (g - sum(g) / M - x^ sum(g x^) / M).
#include <algorithm>
#include <array>
#include <cmath>

#include "trainer/ops/detail/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer/ops/kernels_batch_norm.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "trainer/ops/detail/vector-inl.h"

#ifndef MILLRACE_TRAINER_OPS_BATCH_NORM_ONCE
#define MILLRACE_TRAINER_OPS_BATCH_NORM_ONCE
namespace millrace::trainer::ops {
namespace {

using Lanes = std::array<float, 16>;  // one value a channel of a block
using Sums = std::array<double, 16>;

enum class Mask { kNone, kFromX, kFromY };

// The planes of one block of channels: image n's is `pixels * block` values at n * stride.
struct Planes {
  std::int64_t images;
  std::int64_t values;  // pixels * block
  std::int64_t stride;
  std::int64_t first;
};

Planes planes_of(const ImageShape& shape, std::int64_t block) {
  const std::int64_t values = shape.pixels * shape.block;
  return {shape.images, values, values * shape.blocks, values * block};
}

Lanes lanes_of(std::span<const float> values, std::int64_t first, std::int64_t block) {
  Lanes lanes{};
  for (std::int64_t i = 0; i < block && first + i < static_cast<std::int64_t>(values.size()); ++i) {
    lanes[static_cast<std::size_t>(i)] = values[static_cast<std::size_t>(first + i)];
  }
  return lanes;
}

// The two per-channel factors that batch norm comes down to: y = x * scale + shift.
struct Affine {
  Lanes scale{};
  Lanes shift{};
};

Affine affine_of(const Lanes& gamma, const Lanes& beta, const Lanes& mean, const Lanes& inverse) {
  Affine affine;
  for (std::size_t i = 0; i < affine.scale.size(); ++i) {
    affine.scale[i] = gamma[i] * inverse[i];
    affine.shift[i] = beta[i] - mean[i] * affine.scale[i];
  }
  return affine;
}

}  // namespace
}  // namespace millrace::trainer::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {
namespace {

// A block's vectors: kParts of them hold the 16 or 8 channels.
template <int kBlock>
struct Vectors {
  using D = hn::CappedTag<float, kBlock>;
  static constexpr std::size_t kLanes = hn::MaxLanes(D());
  static constexpr std::size_t kParts = kBlock / kLanes;
  using V = hn::Vec<D>;
};

template <int kBlock>
struct Constant {
  using D = typename Vectors<kBlock>::D;
  explicit Constant(const Lanes& lanes) {
    for (std::size_t k = 0; k < Vectors<kBlock>::kParts; ++k) {
      parts[k] = hn::LoadU(D(), lanes.data() + k * Vectors<kBlock>::kLanes);
    }
  }
  typename Vectors<kBlock>::V parts[Vectors<kBlock>::kParts];
};

// Two running sums a channel, in float32 for a stretch of pixels and in double across stretches.
template <int kBlock>
class PairOfSums {
 public:
  using T = Vectors<kBlock>;
  static constexpr std::size_t kWays = 4;  // independent chains hide the adders' latency

  PairOfSums() { clear(); }
  template <std::size_t kWay>
  HWY_INLINE void add(std::size_t k, typename T::V a, typename T::V b, typename T::V c) {
    first_[kWay][k] = hn::Add(first_[kWay][k], a);
    second_[kWay][k] = hn::MulAdd(b, c, second_[kWay][k]);
  }
  void flush(Sums& first, Sums& second) {
    flush_one(first_, first);
    flush_one(second_, second);
    clear();
  }

 private:
  using Grid = typename T::V[kWays][T::kParts];

  void clear() {
    for (std::size_t way = 0; way < kWays; ++way) {
      for (std::size_t k = 0; k < T::kParts; ++k) {
        first_[way][k] = second_[way][k] = hn::Zero(typename T::D());
      }
    }
  }
  static void flush_one(const Grid& grid, Sums& sums) {
    alignas(64) float lanes[T::kLanes];
    for (std::size_t k = 0; k < T::kParts; ++k) {
      const auto total = hn::Add(hn::Add(grid[0][k], grid[1][k]), hn::Add(grid[2][k], grid[3][k]));
      hn::StoreU(total, typename T::D(), lanes);
      for (std::size_t i = 0; i < T::kLanes; ++i) {
        sums[k * T::kLanes + i] += static_cast<double>(lanes[i]);
      }
    }
  }

  Grid first_;
  Grid second_;
};

// Calls step.template pixel<way>(offset, sums) for every pixel of the planes.
template <int kBlock, class Step>
HWY_INLINE void sum_planes(const Planes& planes, const Step& step, Sums& first, Sums& second) {
  constexpr std::int64_t kStretch = 2048 * kBlock;
  PairOfSums<kBlock> sums;
  std::int64_t pending = 0;
  for (std::int64_t n = 0; n < planes.images; ++n) {
    std::int64_t at = planes.first + n * planes.stride;
    const std::int64_t end = at + planes.values;
    for (; at + 4 * kBlock <= end; at += 4 * kBlock) {
      step.template pixel<0>(at, sums);
      step.template pixel<1>(at + kBlock, sums);
      step.template pixel<2>(at + 2 * kBlock, sums);
      step.template pixel<3>(at + 3 * kBlock, sums);
    }
    for (; at < end; at += kBlock) step.template pixel<0>(at, sums);
    pending += planes.values;
    if (pending < kStretch) continue;
    sums.flush(first, second);
    pending = 0;
  }
  sums.flush(first, second);
}

// Sums of x - pivot and its square: with a pivot among the values nothing cancels.
template <typename T, int kBlock>
struct MomentStep {
  using Vs = Vectors<kBlock>;
  const T* x;
  Constant<kBlock> pivot;

  template <std::size_t kWay>
  HWY_INLINE void pixel(std::int64_t at, PairOfSums<kBlock>& sums) const {
    for (std::size_t k = 0; k < Vs::kParts; ++k) {
      const auto value = load_values(typename Vs::D(), x + at + k * Vs::kLanes);
      const auto off = hn::Sub(value, pivot.parts[k]);
      sums.template add<kWay>(k, off, off, off);
    }
  }
};

template <typename T, int kBlock, bool kResidual, bool kRelu>
void apply(const Planes& planes, const BatchNormForward& args, const Affine& affine) {
  using Vs = Vectors<kBlock>;
  const typename Vs::D d;
  const Constant<kBlock> scale(affine.scale);
  const Constant<kBlock> shift(affine.shift);
  const T* x = static_cast<const T*>(args.x);
  const T* residual = static_cast<const T*>(args.residual);
  T* y = static_cast<T*>(args.y);
  for (std::int64_t n = 0; n < planes.images; ++n) {
    const std::int64_t begin = planes.first + n * planes.stride;
    for (std::int64_t at = begin; at < begin + planes.values; at += kBlock) {
      for (std::size_t k = 0; k < Vs::kParts; ++k) {
        const std::size_t i = static_cast<std::size_t>(at) + k * Vs::kLanes;
        auto value = hn::MulAdd(load_values(d, x + i), scale.parts[k], shift.parts[k]);
        if (kResidual) value = hn::Add(value, load_values(d, residual + i));
        if (kRelu) value = hn::Max(value, hn::Zero(d));
        store_values(value, d, y + i);
      }
    }
  }
}

template <typename T, int kBlock>
void apply_any(const Planes& planes, const BatchNormForward& args, const Affine& affine) {
  if (args.residual != nullptr) {
    if (args.relu) return apply<T, kBlock, true, true>(planes, args, affine);
    return apply<T, kBlock, true, false>(planes, args, affine);
  }
  if (args.relu) return apply<T, kBlock, false, true>(planes, args, affine);
  apply<T, kBlock, false, false>(planes, args, affine);
}

template <typename T>
Lanes first_values(const T* x, const Planes& planes, std::int64_t block) {
  const hn::CappedTag<float, 1> d;
  Lanes lanes{};
  for (std::int64_t i = 0; i < block; ++i) {
    store_values(load_values(d, x + planes.first + i), d, lanes.data() + i);
  }
  return lanes;
}

struct Statistics {
  Lanes mean{};
  Lanes variance{};
};

template <typename T, int kBlock>
Statistics measure(const Planes& planes, const void* x, double count) {
  const T* values = static_cast<const T*>(x);
  const Lanes pivot = first_values(values, planes, kBlock);
  Sums first{};
  Sums second{};
  sum_planes<kBlock>(planes, MomentStep<T, kBlock>{values, Constant<kBlock>(pivot)}, first, second);
  Statistics statistics;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const double off = first[i] / count;
    statistics.mean[i] = static_cast<float>(static_cast<double>(pivot[i]) + off);
    statistics.variance[i] = static_cast<float>(std::max(second[i] / count - off * off, 0.0));
  }
  return statistics;
}

void keep_statistics(const BatchNormForward& args, const Statistics& statistics, std::int64_t first,
                     std::int64_t block, double count) {
  const auto unbias = static_cast<float>(count / std::max(count - 1.0, 1.0));
  for (std::int64_t i = 0; i < block; ++i) {
    const auto lane = static_cast<std::size_t>(i);
    const auto channel = static_cast<std::size_t>(first + i);
    args.mean[channel] = statistics.mean[lane];
    args.inverse_deviation[channel] = 1.0F / std::sqrt(statistics.variance[lane] + args.epsilon);
    if (channel >= args.gamma.size()) continue;
    float& mean = args.running_mean[channel];
    float& variance = args.running_variance[channel];
    mean += args.momentum * (statistics.mean[lane] - mean);
    variance += args.momentum * (statistics.variance[lane] * unbias - variance);
  }
}

template <typename T, int kBlock>
void forward_block(const ImageShape& shape, const BatchNormForward& args, std::int64_t block,
                   bool train) {
  const Planes planes = planes_of(shape, block);
  const std::int64_t first = block * kBlock;
  if (train) {
    const auto count = static_cast<double>(shape.images * shape.pixels);
    keep_statistics(args, measure<T, kBlock>(planes, args.x, count), first, kBlock, count);
  }
  const Affine affine = affine_of(
      lanes_of(args.gamma, first, kBlock), lanes_of(args.beta, first, kBlock),
      lanes_of(args.mean, first, kBlock), lanes_of(args.inverse_deviation, first, kBlock));
  apply_any<T, kBlock>(planes, args, affine);
}

// The gradient after the ReLU at one place.
template <typename T, int kBlock, Mask kMask, bool kTwo>
struct GradientAt {
  using Vs = Vectors<kBlock>;
  const T* x;
  const T* dy;
  const T* dy2;
  const T* y;
  Constant<kBlock> scale;
  Constant<kBlock> shift;

  GradientAt(const BatchNormBackward& args, const Affine& affine)
      : x(static_cast<const T*>(args.x)),
        dy(static_cast<const T*>(args.dy)),
        dy2(static_cast<const T*>(args.dy2)),
        y(static_cast<const T*>(args.y)),
        scale(affine.scale),
        shift(affine.shift) {}

  HWY_INLINE typename Vs::V at(std::size_t i, std::size_t k, typename Vs::V x_value) const {
    const typename Vs::D d;
    auto g = load_values(d, dy + i);
    if (kTwo) g = hn::Add(g, load_values(d, dy2 + i));
    if (kMask == Mask::kNone) return g;
    const auto out = kMask == Mask::kFromY ? load_values(d, y + i)
                                           : hn::MulAdd(x_value, scale.parts[k], shift.parts[k]);
    return hn::IfThenElseZero(hn::Gt(out, hn::Zero(d)), g);
  }
};

// Sums of g and g * (x - mean); stores g where the second pass or the residual needs it.
template <typename T, int kBlock, Mask kMask, bool kTwo, bool kStore>
struct BackwardStep {
  using Vs = Vectors<kBlock>;
  GradientAt<T, kBlock, kMask, kTwo> gradient;
  Constant<kBlock> mean;
  T* g;

  template <std::size_t kWay>
  HWY_INLINE void pixel(std::int64_t at, PairOfSums<kBlock>& sums) const {
    const typename Vs::D d;
    for (std::size_t k = 0; k < Vs::kParts; ++k) {
      const std::size_t i = static_cast<std::size_t>(at) + k * Vs::kLanes;
      const auto x = load_values(d, gradient.x + i);
      const auto value = gradient.at(i, k, x);
      if (kStore) store_values(value, d, g + i);
      sums.template add<kWay>(k, value, value, hn::Sub(x, mean.parts[k]));
    }
  }
};

// dx = a * g + b * x + c.
struct Slopes {
  Lanes a{};
  Lanes b{};
  Lanes c{};
};

template <typename T, int kBlock, Mask kMask>
void apply_slopes(const Planes& planes, const GradientAt<T, kBlock, kMask, false>& gradient,
                  const Slopes& slopes, T* dx) {
  using Vs = Vectors<kBlock>;
  const typename Vs::D d;
  const Constant<kBlock> a(slopes.a);
  const Constant<kBlock> b(slopes.b);
  const Constant<kBlock> c(slopes.c);
  for (std::int64_t n = 0; n < planes.images; ++n) {
    const std::int64_t begin = planes.first + n * planes.stride;
    for (std::int64_t at = begin; at < begin + planes.values; at += kBlock) {
      for (std::size_t k = 0; k < Vs::kParts; ++k) {
        const std::size_t i = static_cast<std::size_t>(at) + k * Vs::kLanes;
        const auto x = load_values(d, gradient.x + i);
        const auto g = gradient.at(i, k, x);
        const auto rest = hn::MulAdd(b.parts[k], x, c.parts[k]);
        store_values(hn::MulAdd(a.parts[k], g, rest), d, dx + i);
      }
    }
  }
}

struct BlockConstants {
  Lanes gamma;
  Lanes mean;
  Lanes inverse;
  Affine affine;
};

// Writes the parameters' gradients and gives the slopes of dx.
Slopes finish_sums(const BatchNormBackward& args, const BlockConstants& constants, const Sums& sum,
                   const Sums& sum_x, std::int64_t first, double count) {
  Slopes slopes;
  for (std::size_t i = 0; i < slopes.a.size(); ++i) {
    const double inverse = static_cast<double>(constants.inverse[i]);
    const double dgamma = sum_x[i] * inverse;
    const double a = static_cast<double>(constants.gamma[i]) * inverse;
    const double b = -a * inverse * dgamma / count;
    slopes.a[i] = static_cast<float>(a);
    slopes.b[i] = static_cast<float>(b);
    slopes.c[i] =
        static_cast<float>(-a * sum[i] / count - b * static_cast<double>(constants.mean[i]));
    const auto channel = static_cast<std::size_t>(first) + i;
    if (channel >= args.dgamma.size()) continue;
    args.dgamma[channel] = static_cast<float>(dgamma);
    args.dbeta[channel] = static_cast<float>(sum[i]);
  }
  return slopes;
}

template <typename T, int kBlock, Mask kMask, bool kTwo, bool kStore>
void backward_block(const Planes& planes, const BatchNormBackward& args,
                    const BlockConstants& constants, std::int64_t first, double count) {
  using Gradient = GradientAt<T, kBlock, kMask, kTwo>;
  T* g = static_cast<T*>(args.g);
  Sums sum{};
  Sums sum_x{};
  const BackwardStep<T, kBlock, kMask, kTwo, kStore> step{Gradient(args, constants.affine),
                                                          Constant<kBlock>(constants.mean), g};
  sum_planes<kBlock>(planes, step, sum, sum_x);
  const Slopes slopes = finish_sums(args, constants, sum, sum_x, first, count);
  if (args.dx == nullptr) return;
  constexpr Mask kLeft = kStore ? Mask::kNone : kMask;
  BatchNormBackward second = args;
  if (kStore) second.dy = args.g;
  apply_slopes<T, kBlock, kLeft>(planes,
                                 GradientAt<T, kBlock, kLeft, false>(second, constants.affine),
                                 slopes, static_cast<T*>(args.dx));
}

template <typename T, int kBlock, Mask kMask>
void backward_masked(const Planes& planes, const BatchNormBackward& args,
                     const BlockConstants& constants, std::int64_t first, double count) {
  if (args.dy2 != nullptr) {
    return backward_block<T, kBlock, kMask, true, true>(planes, args, constants, first, count);
  }
  if (args.g != nullptr) {
    return backward_block<T, kBlock, kMask, false, true>(planes, args, constants, first, count);
  }
  backward_block<T, kBlock, kMask, false, false>(planes, args, constants, first, count);
}

template <typename T, int kBlock>
void backward_any(const ImageShape& shape, const BatchNormBackward& args, std::int64_t block) {
  const std::int64_t first = block * kBlock;
  BlockConstants constants{lanes_of(args.gamma, first, kBlock),
                           lanes_of(args.mean, first, kBlock),
                           lanes_of(args.inverse_deviation, first, kBlock),
                           {}};
  constants.affine = affine_of(constants.gamma, lanes_of(args.beta, first, kBlock), constants.mean,
                               constants.inverse);
  const Planes planes = planes_of(shape, block);
  const auto count = static_cast<double>(shape.images * shape.pixels);
  if (!args.relu) {
    return backward_masked<T, kBlock, Mask::kNone>(planes, args, constants, first, count);
  }
  if (args.y != nullptr) {
    return backward_masked<T, kBlock, Mask::kFromY>(planes, args, constants, first, count);
  }
  backward_masked<T, kBlock, Mask::kFromX>(planes, args, constants, first, count);
}

void ForwardBlock(Storage storage, const ImageShape& shape, const BatchNormForward& args,
                  std::int64_t block, bool train) {
  const bool half = storage == Storage::kBFloat16;
  if (shape.block == 16) {
    if (half) return forward_block<std::uint16_t, 16>(shape, args, block, train);
    return forward_block<float, 16>(shape, args, block, train);
  }
  if (half) return forward_block<std::uint16_t, 8>(shape, args, block, train);
  forward_block<float, 8>(shape, args, block, train);
}

void BackwardBlock(Storage storage, const ImageShape& shape, const BatchNormBackward& args,
                   std::int64_t block) {
  const bool half = storage == Storage::kBFloat16;
  if (shape.block == 16) {
    if (half) return backward_any<std::uint16_t, 16>(shape, args, block);
    return backward_any<float, 16>(shape, args, block);
  }
  if (half) return backward_any<std::uint16_t, 8>(shape, args, block);
  backward_any<float, 8>(shape, args, block);
}

}  // namespace
}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer::ops {
namespace {

HWY_EXPORT(ForwardBlock);
HWY_EXPORT(BackwardBlock);

}  // namespace

void batch_norm_train(Storage storage, const ImageShape& shape, const BatchNormForward& arguments) {
#pragma omp parallel for schedule(static)
  for (std::int64_t block = 0; block < shape.blocks; ++block) {
    HWY_DYNAMIC_DISPATCH(ForwardBlock)(storage, shape, arguments, block, true);
  }
}

void batch_norm_evaluate(Storage storage, const ImageShape& shape,
                         const BatchNormForward& arguments) {
  for (std::size_t i = 0; i < arguments.gamma.size(); ++i) {
    arguments.mean[i] = arguments.running_mean[i];
    arguments.inverse_deviation[i] =
        1.0F / std::sqrt(arguments.running_variance[i] + arguments.epsilon);
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t block = 0; block < shape.blocks; ++block) {
    HWY_DYNAMIC_DISPATCH(ForwardBlock)(storage, shape, arguments, block, false);
  }
}

void batch_norm_backward(Storage storage, const ImageShape& shape,
                         const BatchNormBackward& arguments) {
#pragma omp parallel for schedule(static)
  for (std::int64_t block = 0; block < shape.blocks; ++block) {
    HWY_DYNAMIC_DISPATCH(BackwardBlock)(storage, shape, arguments, block);
  }
}

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE

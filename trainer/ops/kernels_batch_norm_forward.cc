// Batch normalisation, one block of channels at a time: the second pass over a block finds it in
// the cache, and no sum is shared between threads.
//
// Source: Ioffe, Szegedy, "Batch normalization" (2015).
#include <algorithm>
#include <cmath>

#include "trainer/ops/detail/batch_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer/ops/kernels_batch_norm_forward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "trainer/ops/detail/batch_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {
namespace {

// Sums of x - pivot and of its square: a pivot among the values avoids cancellation.
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

void ForwardBlock(Storage storage, const ImageShape& shape, const BatchNormForward& args,
                  std::int64_t block, bool train) {
  with_types(storage, shape.block, [&]<typename T, int kBlock>() HWY_ATTR {
    forward_block<T, kBlock>(shape, args, block, train);
  });
}

}  // namespace
}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer::ops {
namespace {
HWY_EXPORT(ForwardBlock);
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

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE

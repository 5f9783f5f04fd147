// Batch normalisation. In blocks, one block of channels at a time: the second pass over a block
// finds it in the cache, and no sum is shared between threads. Channels-last, in chunks of rows.
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
template <typename T, class Vs>
struct MomentStep {
  const T* x;
  typename Vs::Constant pivot;

  template <class Total>
  HWY_INLINE void part(std::size_t i, std::size_t k, Total&& total) const {
    const auto off = hn::Sub(load_values(typename Vs::D(), x + i), pivot.part(k));
    total.add(off, off, off);
  }
};

// y from x.
template <typename T, class Vs, bool kResidual, bool kRelu>
struct ApplyStep {
  const T* x;
  const T* residual;
  T* y;
  typename Vs::Constant scale;
  typename Vs::Constant shift;

  template <class Constants>
  ApplyStep(const BatchNormForward& args, const Constants& affine)
      : x(static_cast<const T*>(args.x)),
        residual(static_cast<const T*>(args.residual)),
        y(static_cast<T*>(args.y)),
        scale(affine.scale),
        shift(affine.shift) {}

  HWY_INLINE void part(std::size_t i, std::size_t k) const {
    const typename Vs::D d;
    auto value = hn::MulAdd(load_values(d, x + i), scale.part(k), shift.part(k));
    if (kResidual) value = hn::Add(value, load_values(d, residual + i));
    if (kRelu) value = hn::Max(value, hn::Zero(d));
    store_values(value, d, y + i);
  }
};

// Calls f.operator()<residual, relu>().
template <class F>
HWY_INLINE void with_results(const BatchNormForward& args, const F& f) {
  if (args.residual != nullptr) {
    if (args.relu) return f.template operator()<true, true>();
    return f.template operator()<true, false>();
  }
  if (args.relu) return f.template operator()<false, true>();
  f.template operator()<false, false>();
}

// The `count` values at x as float32.
template <typename T>
void widen(const T* x, std::int64_t count, float* values) {
  const hn::CappedTag<float, 1> d;
  for (std::int64_t i = 0; i < count; ++i) store_values(load_values(d, x + i), d, values + i);
}

template <typename T, int kBlock>
Statistics measure(const Planes& planes, const void* x, double count) {
  using Vs = BlockVectors<kBlock>;
  const T* values = static_cast<const T*>(x);
  Lanes pivot{};
  widen(values + planes.first, kBlock, pivot.data());
  Sums first{};
  Sums second{};
  sum_planes<kBlock>(planes, MomentStep<T, Vs>{values, typename Vs::Constant(pivot)}, first,
                     second);
  return statistics_of(pivot, first, second, count);
}

template <typename T, int kBlock>
void forward_block(const ImageShape& shape, const BatchNormForward& args, std::int64_t block,
                   bool train) {
  const Planes planes = planes_of(shape, block);
  const std::int64_t first = block * kBlock;
  if (train) {
    const auto count = static_cast<double>(shape.rows());
    keep_statistics(args, measure<T, kBlock>(planes, args.x, count), first, kBlock, count);
  }
  const Affine affine = affine_of(args, first, kBlock);
  with_results(args, [&]<bool kResidual, bool kRelu>() HWY_ATTR {
    for_planes<kBlock>(planes, ApplyStep<T, BlockVectors<kBlock>, kResidual, kRelu>(args, affine));
  });
}

void ForwardBlock(Storage storage, const ImageShape& shape, const BatchNormForward& args,
                  std::int64_t block, bool train) {
  with_types(storage, shape.block, [&]<typename T, int kBlock>() HWY_ATTR {
    forward_block<T, kBlock>(shape, args, block, train);
  });
}

void FirstRow(Storage storage, const ImageShape& shape, const BatchNormForward& args,
              const RowScratch& scratch) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    widen(static_cast<const T*>(args.x), shape.channels, scratch.pivot());
  });
}

void SumMoments(Storage storage, const Rows& rows, const BatchNormForward& args,
                const RowScratch& scratch, std::int64_t chunk) {
  float* const sums = scratch.sums(chunk);
  std::fill_n(sums, 2 * rows.channels, 0.0F);
  with_type(storage, [&]<typename T>() HWY_ATTR {
    with_row_vectors(rows.channels, [&]<class Vs>(Channels range) HWY_ATTR {
      const MomentStep<T, Vs> step{static_cast<const T*>(args.x),
                                   typename Vs::Constant(scratch.pivot())};
      sum_rows<Vs>(rows, range, step, sums);
    });
  });
}

void ApplyChunk(Storage storage, const Rows& rows, const BatchNormForward& args,
                const RowScratch& scratch) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    with_results(args, [&]<bool kResidual, bool kRelu>() HWY_ATTR {
      with_row_vectors(rows.channels, [&]<class Vs>(Channels range) HWY_ATTR {
        for_rows<Vs>(rows, range, ApplyStep<T, Vs, kResidual, kRelu>(args, scratch.affine()));
      });
    });
  });
}

}  // namespace
}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer::ops {
namespace {
HWY_EXPORT(ForwardBlock);
HWY_EXPORT(FirstRow);
HWY_EXPORT(SumMoments);
HWY_EXPORT(ApplyChunk);

void measure_rows(Storage storage, const ImageShape& shape, const BatchNormForward& args,
                  const RowScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(FirstRow)(storage, shape, args, scratch);
  const std::int64_t chunks = chunks_of(shape);
#pragma omp parallel for schedule(static)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    HWY_DYNAMIC_DISPATCH(SumMoments)(storage, rows_of(shape, chunk), args, scratch, chunk);
  }
  const auto count = static_cast<double>(shape.rows());
  const std::span<const float> pivot(scratch.pivot(), static_cast<std::size_t>(shape.channels));
  for (std::int64_t first = 0; first < shape.channels; first += kLanes) {
    const Sums sum = scratch.total(chunks, 0, first);
    const Sums squares = scratch.total(chunks, 1, first);
    keep_statistics(args, statistics_of(lanes_of(pivot, first), sum, squares, count), first, kLanes,
                    count);
  }
}

void apply_rows(Storage storage, const ImageShape& shape, const BatchNormForward& args,
                const RowScratch& scratch) {
  scratch.put_affine(args);
  const std::int64_t chunks = chunks_of(shape);
#pragma omp parallel for schedule(static)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    HWY_DYNAMIC_DISPATCH(ApplyChunk)(storage, rows_of(shape, chunk), args, scratch);
  }
}

void normalise(Storage storage, const ImageShape& shape, const BatchNormForward& args, bool train) {
  if (shape.channels_last) {
    const RowScratch scratch(args.scratch, shape.channels);
    if (train) measure_rows(storage, shape, args, scratch);
    return apply_rows(storage, shape, args, scratch);
  }
#pragma omp parallel for schedule(static)
  for (std::int64_t block = 0; block < shape.blocks; ++block) {
    HWY_DYNAMIC_DISPATCH(ForwardBlock)(storage, shape, args, block, train);
  }
}

}  // namespace

std::size_t batch_norm_scratch(const ImageShape& shape) {
  if (!shape.channels_last) return 0;
  const std::int64_t arrays = RowScratch::kArrays + 2 * chunks_of(shape);
  return static_cast<std::size_t>(arrays * shape.channels);
}

void batch_norm_train(Storage storage, const ImageShape& shape, const BatchNormForward& arguments) {
  normalise(storage, shape, arguments, true);
}

void batch_norm_evaluate(Storage storage, const ImageShape& shape,
                         const BatchNormForward& arguments) {
  for (std::size_t i = 0; i < arguments.gamma.size(); ++i) {
    arguments.mean[i] = arguments.running_mean[i];
    arguments.inverse_deviation[i] =
        1.0F / std::sqrt(arguments.running_variance[i] + arguments.epsilon);
  }
  normalise(storage, shape, arguments, false);
}

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE

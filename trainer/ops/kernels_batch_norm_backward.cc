// The backward pass of batch normalisation. With g = dy after the ReLU, M values per channel and x^
// = (x - mean) r: dx = gamma r (g - sum(g) / M - x^ sum(g x^) / M).
//
// Source: Ioffe, Szegedy, "Batch normalization" (2015).
#include <algorithm>

#include "trainer/ops/detail/batch_norm.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer/ops/kernels_batch_norm_backward.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "trainer/ops/detail/batch_norm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {
namespace {

enum class Mask { kNone, kFromX, kFromY };

// The gradient after the ReLU, at one position.
template <typename T, class Vs, Mask kMask, bool kTwo>
struct GradientAt {
  const T* x;
  const T* dy;
  const T* dy2;
  const T* y;
  typename Vs::Constant scale;
  typename Vs::Constant shift;

  template <class Constants>
  GradientAt(const BatchNormBackward& args, const Constants& affine)
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
                                           : hn::MulAdd(x_value, scale.part(k), shift.part(k));
    return hn::IfThenElseZero(hn::Gt(out, hn::Zero(d)), g);
  }
};

// Sums of g and g * (x - mean); stores g where the second pass or the residual needs it.
template <typename T, class Vs, Mask kMask, bool kTwo, bool kStore>
struct BackwardStep {
  GradientAt<T, Vs, kMask, kTwo> gradient;
  typename Vs::Constant mean;
  T* g;

  template <class Total>
  HWY_INLINE void part(std::size_t i, std::size_t k, Total&& total) const {
    const typename Vs::D d;
    const auto x = load_values(d, gradient.x + i);
    const auto value = gradient.at(i, k, x);
    if (kStore) store_values(value, d, g + i);
    total.add(value, value, hn::Sub(x, mean.part(k)));
  }
};

// dx = a * g + b * x + c.
template <typename T, class Vs, Mask kMask>
struct SlopeStep {
  GradientAt<T, Vs, kMask, false> gradient;
  typename Vs::Constant a, b, c;
  T* dx;

  template <class Constants>
  SlopeStep(const GradientAt<T, Vs, kMask, false>& at, const Constants& slopes, void* to)
      : gradient(at), a(slopes.a), b(slopes.b), c(slopes.c), dx(static_cast<T*>(to)) {}

  HWY_INLINE void part(std::size_t i, std::size_t k) const {
    const typename Vs::D d;
    const auto x = load_values(d, gradient.x + i);
    const auto g = gradient.at(i, k, x);
    const auto rest = hn::MulAdd(b.part(k), x, c.part(k));
    store_values(hn::MulAdd(a.part(k), g, rest), d, dx + i);
  }
};

template <Mask kMask, class F>
HWY_INLINE void with_stores(const BatchNormBackward& args, const F& f) {
  if (args.dy2 != nullptr) return f.template operator()<kMask, true, true>();
  if (args.g != nullptr) return f.template operator()<kMask, false, true>();
  f.template operator()<kMask, false, false>();
}

// Calls f.operator()<mask, two parts of the gradient, g is stored>().
template <class F>
HWY_INLINE void with_gradients(const BatchNormBackward& args, const F& f) {
  if (!args.relu) return with_stores<Mask::kNone>(args, f);
  if (args.y != nullptr) return with_stores<Mask::kFromY>(args, f);
  with_stores<Mask::kFromX>(args, f);
}

// Calls f.operator()<mask>(args of the second pass): it reads the gradient that the first has
// stored, masked, if it has.
template <class F>
HWY_INLINE void with_second_pass(const BatchNormBackward& args, const F& f) {
  BatchNormBackward second = args;
  const bool stored = args.dy2 != nullptr || args.g != nullptr;
  if (stored) second.dy = args.g;
  if (stored || !args.relu) return f.template operator()<Mask::kNone>(second);
  if (args.y != nullptr) return f.template operator()<Mask::kFromY>(second);
  f.template operator()<Mask::kFromX>(second);
}

template <typename T, int kBlock, Mask kMask, bool kTwo, bool kStore>
void sum_block(const Planes& planes, const BatchNormBackward& args, const Affine& affine,
               std::int64_t first, Sums& sum, Sums& sum_x) {
  using Vs = BlockVectors<kBlock>;
  const BackwardStep<T, Vs, kMask, kTwo, kStore> step{
      GradientAt<T, Vs, kMask, kTwo>(args, affine),
      typename Vs::Constant(lanes_of(args.mean, first, kBlock)), static_cast<T*>(args.g)};
  sum_planes<kBlock>(planes, step, sum, sum_x);
}

template <typename T, int kBlock>
void backward_block(const Planes& planes, const BatchNormBackward& args, std::int64_t first,
                    double count) {
  using Vs = BlockVectors<kBlock>;
  const Affine affine = affine_of(args, first, kBlock);
  Sums sum{};
  Sums sum_x{};
  with_gradients(args, [&]<Mask kMask, bool kTwo, bool kStore>() HWY_ATTR {
    sum_block<T, kBlock, kMask, kTwo, kStore>(planes, args, affine, first, sum, sum_x);
  });
  const Slopes slopes = finish_sums(args, sum, sum_x, first, kBlock, count);
  if (args.dx == nullptr) return;
  with_second_pass(args, [&]<Mask kLeft>(const BatchNormBackward& second) HWY_ATTR {
    const GradientAt<T, Vs, kLeft, false> gradient(second, affine);
    for_planes<kBlock>(planes, SlopeStep<T, Vs, kLeft>(gradient, slopes, args.dx));
  });
}

void BackwardBlock(Storage storage, const ImageShape& shape, const BatchNormBackward& args,
                   std::int64_t block) {
  with_types(storage, shape.block, [&]<typename T, int kBlock>() HWY_ATTR {
    backward_block<T, kBlock>(planes_of(shape, block), args, block * kBlock,
                              static_cast<double>(shape.rows()));
  });
}

void SumGradients(Storage storage, const Rows& rows, const BatchNormBackward& args,
                  const RowScratch& scratch, std::int64_t chunk) {
  float* const sums = scratch.sums(chunk);
  std::fill_n(sums, 2 * rows.channels, 0.0F);
  with_type(storage, [&]<typename T>() HWY_ATTR {
    with_gradients(args, [&]<Mask kMask, bool kTwo, bool kStore>() HWY_ATTR {
      with_row_vectors(rows.channels, [&]<class Vs>(Channels range) HWY_ATTR {
        const BackwardStep<T, Vs, kMask, kTwo, kStore> step{
            GradientAt<T, Vs, kMask, kTwo>(args, scratch.affine()),
            typename Vs::Constant(args.mean.data()), static_cast<T*>(args.g)};
        sum_rows<Vs>(rows, range, step, sums);
      });
    });
  });
}

void SlopeChunk(Storage storage, const Rows& rows, const BatchNormBackward& args,
                const RowScratch& scratch) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    with_second_pass(args, [&]<Mask kLeft>(const BatchNormBackward& second) HWY_ATTR {
      with_row_vectors(rows.channels, [&]<class Vs>(Channels range) HWY_ATTR {
        const GradientAt<T, Vs, kLeft, false> gradient(second, scratch.affine());
        for_rows<Vs>(rows, range, SlopeStep<T, Vs, kLeft>(gradient, scratch.slopes(), args.dx));
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
HWY_EXPORT(BackwardBlock);
HWY_EXPORT(SumGradients);
HWY_EXPORT(SlopeChunk);

void finish_rows(const ImageShape& shape, const BatchNormBackward& args,
                 const RowScratch& scratch) {
  const std::int64_t chunks = chunks_of(shape);
  for (std::int64_t first = 0; first < shape.channels; first += kLanes) {
    scratch.put(finish_sums(args, scratch.total(chunks, 0, first), scratch.total(chunks, 1, first),
                            first, kLanes, static_cast<double>(shape.rows())),
                first);
  }
}

void backward_rows(Storage storage, const ImageShape& shape, const BatchNormBackward& args) {
  const RowScratch scratch(args.scratch, shape.channels);
  scratch.put_affine(args);
  const std::int64_t chunks = chunks_of(shape);
#pragma omp parallel for schedule(static)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    HWY_DYNAMIC_DISPATCH(SumGradients)(storage, rows_of(shape, chunk), args, scratch, chunk);
  }
  finish_rows(shape, args, scratch);
  if (args.dx == nullptr) return;
#pragma omp parallel for schedule(static)
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    HWY_DYNAMIC_DISPATCH(SlopeChunk)(storage, rows_of(shape, chunk), args, scratch);
  }
}

}  // namespace

void batch_norm_backward(Storage storage, const ImageShape& shape,
                         const BatchNormBackward& arguments) {
  if (shape.channels_last) return backward_rows(storage, shape, arguments);
#pragma omp parallel for schedule(static)
  for (std::int64_t block = 0; block < shape.blocks; ++block) {
    HWY_DYNAMIC_DISPATCH(BackwardBlock)(storage, shape, arguments, block);
  }
}

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE

// The backward pass of batch normalisation. With g = dy after the ReLU, M values per channel and x^
// = (x - mean) r: dx = gamma r (g - sum(g) / M - x^ sum(g x^) / M).
//
// Source: Ioffe, Szegedy, "Batch normalization" (2015).

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

// Writes the parameters' gradients and returns the slopes of dx. A block may have fewer channels
// than Lanes: the values after them are the next block's, which another thread may have written.
template <int kBlock>
Slopes finish_sums(const BatchNormBackward& args, const BlockConstants& constants, const Sums& sum,
                   const Sums& sum_x, std::int64_t first, double count) {
  Slopes slopes;
  for (std::size_t i = 0; i < kBlock; ++i) {
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
  const Slopes slopes = finish_sums<kBlock>(args, constants, sum, sum_x, first, count);
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

void BackwardBlock(Storage storage, const ImageShape& shape, const BatchNormBackward& args,
                   std::int64_t block) {
  with_types(storage, shape.block, [&]<typename T, int kBlock>() HWY_ATTR {
    backward_any<T, kBlock>(shape, args, block);
  });
}

}  // namespace
}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer::ops {
namespace {
HWY_EXPORT(BackwardBlock);
}  // namespace

void batch_norm_backward(Storage storage, const ImageShape& shape,
                         const BatchNormBackward& arguments) {
#pragma omp parallel for schedule(static)
  for (std::int64_t block = 0; block < shape.blocks; ++block) {
    HWY_DYNAMIC_DISPATCH(BackwardBlock)(storage, shape, arguments, block);
  }
}

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE

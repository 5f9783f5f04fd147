// Hard activations, and channels times their factors.
#include <algorithm>
#include <cstring>

#include "trainer/ops/detail/chunks.h"
#include "trainer/ops/detail/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer/ops/kernels_channels.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "trainer/ops/detail/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {
namespace {

// (x + 3) / 6 within 0 and 1.
template <class D>
HWY_INLINE hn::Vec<D> hard_gate(D d, hn::Vec<D> x) {
  const auto gate = hn::MulAdd(x, hn::Set(d, 1.0F / 6.0F), hn::Set(d, 0.5F));
  return hn::Min(hn::Max(gate, hn::Zero(d)), hn::Set(d, 1.0F));
}

template <class D>
HWY_INLINE hn::Vec<D> hard_value(D d, hn::Vec<D> x, bool times_x) {
  const auto gate = hard_gate(d, x);
  return times_x ? hn::Mul(x, gate) : gate;
}

// At -3 and 3 as PyTorch 1.13: the gate as outside; x times the gate as from there upwards.
template <class D>
HWY_INLINE hn::Vec<D> hard_slope(D d, hn::Vec<D> x, bool times_x) {
  const auto three = hn::Set(d, 3.0F);
  if (!times_x) {
    const auto within = hn::And(hn::Gt(x, hn::Neg(three)), hn::Lt(x, three));
    return hn::IfThenElseZero(within, hn::Set(d, 1.0F / 6.0F));
  }
  const auto within = hn::And(hn::Ge(x, hn::Neg(three)), hn::Lt(x, three));
  const auto rising = hn::MulAdd(x, hn::Set(d, 1.0F / 3.0F), hn::Set(d, 0.5F));
  const auto outside = hn::IfThenElseZero(hn::Ge(x, three), hn::Set(d, 1.0F));
  return hn::IfThenElse(within, rising, outside);
}

template <class D, typename T>
HWY_INLINE std::size_t activate_some(D d, std::size_t begin, std::size_t end,
                                     const HardActivation& of) {
  const std::size_t lanes = hn::Lanes(d);
  for (; begin + lanes <= end; begin += lanes) {
    const auto x = load_values(d, static_cast<const T*>(of.x) + begin);
    const auto y = of.dy == nullptr ? hard_value(d, x, of.times_x)
                                    : hn::Mul(load_values(d, static_cast<const T*>(of.dy) + begin),
                                              hard_slope(d, x, of.times_x));
    store_values(y, d, static_cast<T*>(of.out) + begin);
  }
  return begin;
}

template <typename T>
void activate_range(std::size_t begin, std::size_t end, const HardActivation& of) {
  begin = activate_some<hn::CappedTag<float, 16>, T>({}, begin, end, of);
  activate_some<hn::CappedTag<float, 1>, T>({}, begin, end, of);
}

void ActivateRange(Storage storage, std::size_t begin, std::size_t end, const HardActivation& of) {
  with_type(storage, [&]<typename T>() HWY_ATTR { activate_range<T>(begin, end, of); });
}

template <typename T>
void scale_plane(const ScaleShape& shape, const ScaleForward& of, std::int64_t plane) {
  const T* factor = static_cast<const T*>(of.factor) + plane * shape.block;
  const std::int64_t first = plane * shape.pixels * shape.block;
  const T* x = static_cast<const T*>(of.x) + first;
  T* y = static_cast<T*>(of.y) + first;
  for_lanes(shape.block, [&](std::int64_t lane, auto d) HWY_ATTR {
    const auto by = load_values(d, factor + lane);
    for (std::int64_t at = lane; at < shape.pixels * shape.block; at += shape.block)
      store_values(hn::Mul(load_values(d, x + at), by), d, y + at);
  });
}

template <typename T>
void scale_back_plane(const ScaleShape& shape, const ScaleBackward& of, std::int64_t plane) {
  const T* factor = static_cast<const T*>(of.factor) + plane * shape.block;
  const std::int64_t first = plane * shape.pixels * shape.block;
  const T* x = static_cast<const T*>(of.x) + first;
  const T* dy = static_cast<const T*>(of.dy) + first;
  T* dx = static_cast<T*>(of.dx) + first;
  T* dfactor = static_cast<T*>(of.dfactor) + plane * shape.block;
  for_lanes(shape.block, [&](std::int64_t lane, auto d) HWY_ATTR {
    const auto by = load_values(d, factor + lane);
    auto sum = hn::Zero(d);
    for (std::int64_t at = lane; at < shape.pixels * shape.block; at += shape.block) {
      const auto incoming = load_values(d, dy + at);
      sum = hn::MulAdd(incoming, load_values(d, x + at), sum);
      store_values(hn::Mul(incoming, by), d, dx + at);
    }
    store_values(sum, d, dfactor + lane);
  });
}

void ScalePlane(Storage storage, const ScaleShape& shape, const ScaleForward& of,
                std::int64_t plane) {
  with_type(storage, [&]<typename T>() HWY_ATTR { scale_plane<T>(shape, of, plane); });
}

void ScaleBackPlane(Storage storage, const ScaleShape& shape, const ScaleBackward& of,
                    std::int64_t plane) {
  with_type(storage, [&]<typename T>() HWY_ATTR { scale_back_plane<T>(shape, of, plane); });
}

}  // namespace
}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer::ops {
namespace {

HWY_EXPORT(ActivateRange);
HWY_EXPORT(ScalePlane);
HWY_EXPORT(ScaleBackPlane);

}  // namespace

void hard_activation(Storage storage, std::size_t count, const HardActivation& arguments) {
  in_chunks(count, [&](std::size_t begin, std::size_t end) {
    HWY_DYNAMIC_DISPATCH(ActivateRange)(storage, begin, end, arguments);
  });
}

void clear_padding(const ImageShape& shape, std::size_t value_bytes, void* values) {
  const std::int64_t used = shape.channels - (shape.blocks - 1) * shape.block;
  if (used == shape.block) return;
  auto* const bytes = static_cast<std::byte*>(values);
  for (std::int64_t image = 0; image < shape.images; ++image) {
    const std::int64_t last = ((image + 1) * shape.blocks - 1) * shape.pixels;
    for (std::int64_t pixel = last; pixel < last + shape.pixels; ++pixel)
      std::memset(bytes + static_cast<std::size_t>(pixel * shape.block + used) * value_bytes, 0,
                  static_cast<std::size_t>(shape.block - used) * value_bytes);
  }
}

void scale_channels(Storage storage, const ScaleShape& shape, const ScaleForward& arguments) {
#pragma omp parallel for schedule(static)
  for (std::int64_t plane = 0; plane < shape.planes; ++plane)
    HWY_DYNAMIC_DISPATCH(ScalePlane)(storage, shape, arguments, plane);
}

void scale_channels_backward(Storage storage, const ScaleShape& shape,
                             const ScaleBackward& arguments) {
#pragma omp parallel for schedule(static)
  for (std::int64_t plane = 0; plane < shape.planes; ++plane)
    HWY_DYNAMIC_DISPATCH(ScaleBackPlane)(storage, shape, arguments, plane);
}

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE

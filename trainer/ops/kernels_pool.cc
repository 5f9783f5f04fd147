// Adaptive average pooling over blocked images: PyTorch's windows, which may overlap.
#include <algorithm>

#include "trainer/ops/detail/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer/ops/kernels_pool.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "trainer/ops/detail/vector-inl.h"

#ifndef MILLRACE_TRAINER_OPS_POOL_ONCE
#define MILLRACE_TRAINER_OPS_POOL_ONCE
namespace millrace::trainer::ops {
namespace {

struct Span1d {
  std::int64_t begin;
  std::int64_t end;
};

Span1d window(std::int64_t index, std::int64_t in, std::int64_t out) {
  return {index * in / out, ((index + 1) * in + out - 1) / out};
}

// One output's rows and columns of the input.
struct Window {
  Span1d rows;
  Span1d columns;

  Window(const PoolShape& shape, std::int64_t row, std::int64_t column)
      : rows(window(row, shape.in_height, shape.out_height)),
        columns(window(column, shape.in_width, shape.out_width)) {}
  float area() const {
    return static_cast<float>((rows.end - rows.begin) * (columns.end - columns.begin));
  }
};

}  // namespace
}  // namespace millrace::trainer::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, 8>;  // divides both block sizes

template <typename T>
void average(const PoolShape& shape, const Window& window, const T* x, T* y) {
  const D d;
  const auto scale = hn::Set(d, 1.0F / window.area());
  for (std::int64_t lane = 0; lane < shape.block; lane += static_cast<std::int64_t>(hn::Lanes(d))) {
    auto sum = hn::Zero(d);
    for (std::int64_t row = window.rows.begin; row < window.rows.end; ++row) {
      for (std::int64_t column = window.columns.begin; column < window.columns.end; ++column) {
        sum =
            hn::Add(sum, load_values(d, x + (row * shape.in_width + column) * shape.block + lane));
      }
    }
    store_values(hn::Mul(sum, scale), d, y + lane);
  }
}

template <typename T>
void spread(const PoolShape& shape, const Window& window, const T* dy, T* dx) {
  const D d;
  const auto scale = hn::Set(d, 1.0F / window.area());
  for (std::int64_t lane = 0; lane < shape.block; lane += static_cast<std::int64_t>(hn::Lanes(d))) {
    const auto share = hn::Mul(load_values(d, dy + lane), scale);
    for (std::int64_t row = window.rows.begin; row < window.rows.end; ++row) {
      for (std::int64_t column = window.columns.begin; column < window.columns.end; ++column) {
        T* to = dx + (row * shape.in_width + column) * shape.block + lane;
        store_values(hn::Add(load_values(d, to), share), d, to);
      }
    }
  }
}

template <typename T>
void forward_plane(const PoolShape& shape, const T* x, T* y) {
  for (std::int64_t row = 0; row < shape.out_height; ++row) {
    for (std::int64_t column = 0; column < shape.out_width; ++column, y += shape.block) {
      average(shape, Window(shape, row, column), x, y);
    }
  }
}

template <typename T>
void backward_plane(const PoolShape& shape, const T* dy, T* dx) {
  std::fill_n(dx, shape.in_height * shape.in_width * shape.block, T{0});
  for (std::int64_t row = 0; row < shape.out_height; ++row) {
    for (std::int64_t column = 0; column < shape.out_width; ++column, dy += shape.block) {
      spread(shape, Window(shape, row, column), dy, dx);
    }
  }
}

template <typename T>
void pool_plane(const PoolShape& shape, const void* from, void* to, std::int64_t plane,
                bool backward) {
  const std::int64_t in = shape.in_height * shape.in_width * shape.block;
  const std::int64_t out = shape.out_height * shape.out_width * shape.block;
  if (backward) {
    backward_plane(shape, static_cast<const T*>(from) + plane * out,
                   static_cast<T*>(to) + plane * in);
  } else {
    forward_plane(shape, static_cast<const T*>(from) + plane * in,
                  static_cast<T*>(to) + plane * out);
  }
}

void PoolPlane(Storage storage, const PoolShape& shape, const void* from, void* to,
               std::int64_t plane, bool backward) {
  if (storage == Storage::kBFloat16) {
    return pool_plane<std::uint16_t>(shape, from, to, plane, backward);
  }
  pool_plane<float>(shape, from, to, plane, backward);
}

}  // namespace
}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer::ops {
namespace {
HWY_EXPORT(PoolPlane);
}  // namespace

void adaptive_avg_pool(Storage storage, const PoolShape& shape, const void* x, void* y) {
#pragma omp parallel for schedule(static)
  for (std::int64_t plane = 0; plane < shape.planes; ++plane) {
    HWY_DYNAMIC_DISPATCH(PoolPlane)(storage, shape, x, y, plane, false);
  }
}

void adaptive_avg_pool_backward(Storage storage, const PoolShape& shape, const void* dy, void* dx) {
#pragma omp parallel for schedule(static)
  for (std::int64_t plane = 0; plane < shape.planes; ++plane) {
    HWY_DYNAMIC_DISPATCH(PoolPlane)(storage, shape, dy, dx, plane, true);
  }
}

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE

// Adaptive average pooling over blocked images: PyTorch's windows, which may overlap.
#include <utility>

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

// The rows and columns of the input that one output averages.
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

// The outputs that average one input are a window too: the rule with the two sizes exchanged.
PoolShape reversed(const PoolShape& shape) {
  PoolShape back = shape;
  std::swap(back.in_height, back.out_height);
  std::swap(back.in_width, back.out_width);
  return back;
}

}  // namespace
}  // namespace millrace::trainer::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {
namespace {

template <typename T>
void average(const PoolShape& shape, const Window& window, const T* x, T* y) {
  for_lanes(shape.block, [&](std::int64_t lane, auto d) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (std::int64_t row = window.rows.begin; row < window.rows.end; ++row) {
      for (std::int64_t column = window.columns.begin; column < window.columns.end; ++column) {
        sum =
            hn::Add(sum, load_values(d, x + (row * shape.in_width + column) * shape.block + lane));
      }
    }
    store_values(hn::Mul(sum, hn::Set(d, 1.0F / window.area())), d, y + lane);
  });
}

// An input's gradient from the outputs that average it, summed before it is rounded.
template <typename T>
void gather(const PoolShape& shape, const Window& outputs, const float* scales, const T* dy,
            T* dx) {
  for_lanes(shape.block, [&](std::int64_t lane, auto d) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (std::int64_t row = outputs.rows.begin; row < outputs.rows.end; ++row) {
      for (std::int64_t column = outputs.columns.begin; column < outputs.columns.end; ++column) {
        const std::int64_t output = row * shape.out_width + column;
        const auto part = load_values(d, dy + output * shape.block + lane);
        sum = hn::MulAdd(part, hn::Set(d, scales[output]), sum);
      }
    }
    store_values(sum, d, dx + lane);
  });
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
void backward_plane(const PoolShape& shape, const float* scales, const T* dy, T* dx) {
  const PoolShape back = reversed(shape);
  for (std::int64_t row = 0; row < shape.in_height; ++row) {
    for (std::int64_t column = 0; column < shape.in_width; ++column, dx += shape.block) {
      gather(shape, Window(back, row, column), scales, dy, dx);
    }
  }
}

template <typename T>
T* plane_of(const PoolShape& shape, T* planes, std::int64_t plane) {
  return planes + plane * shape.in_height * shape.in_width * shape.block;
}

template <typename T>
void average_plane(const PoolShape& shape, const void* x, void* y, std::int64_t plane) {
  forward_plane(shape, plane_of(shape, static_cast<const T*>(x), plane),
                plane_of(reversed(shape), static_cast<T*>(y), plane));
}

template <typename T>
void gather_plane(const PoolShape& shape, const float* scales, const void* dy, void* dx,
                  std::int64_t plane) {
  backward_plane(shape, scales, plane_of(reversed(shape), static_cast<const T*>(dy), plane),
                 plane_of(shape, static_cast<T*>(dx), plane));
}

void AveragePlane(Storage storage, const PoolShape& shape, const void* x, void* y,
                  std::int64_t plane) {
  with_type(storage, [&]<typename T>() HWY_ATTR { average_plane<T>(shape, x, y, plane); });
}

void GatherPlane(Storage storage, const PoolShape& shape, const float* scales, const void* dy,
                 void* dx, std::int64_t plane) {
  with_type(storage, [&]<typename T>() HWY_ATTR { gather_plane<T>(shape, scales, dy, dx, plane); });
}

}  // namespace
}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer::ops {
namespace {
HWY_EXPORT(AveragePlane);
HWY_EXPORT(GatherPlane);
}  // namespace

std::vector<float> adaptive_avg_scales(const PoolShape& shape) {
  std::vector<float> scales;
  for (std::int64_t row = 0; row < shape.out_height; ++row) {
    for (std::int64_t column = 0; column < shape.out_width; ++column) {
      scales.push_back(1.0F / Window(shape, row, column).area());
    }
  }
  return scales;
}

void adaptive_avg_pool(Storage storage, const PoolShape& shape, const void* x, void* y) {
#pragma omp parallel for schedule(static)
  for (std::int64_t plane = 0; plane < shape.planes; ++plane) {
    HWY_DYNAMIC_DISPATCH(AveragePlane)(storage, shape, x, y, plane);
  }
}

void adaptive_avg_pool_backward(Storage storage, const PoolShape& shape,
                                std::span<const float> scales, const void* dy, void* dx) {
#pragma omp parallel for schedule(static)
  for (std::int64_t plane = 0; plane < shape.planes; ++plane) {
    HWY_DYNAMIC_DISPATCH(GatherPlane)(storage, shape, scales.data(), dy, dx, plane);
  }
}

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE

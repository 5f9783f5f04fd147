// Tokens' loops: embeddings added, softmax with its scale, heads apart and together.
#include <algorithm>
#include <cstring>
#include <limits>

#include "trainer/ops/detail/token_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer/ops/kernels_tokens.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format off
#include <hwy/contrib/math/math-inl.h>  // of each target: after foreach_target.h
// clang-format on

#include "trainer/ops/detail/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {
namespace {

// An image's offset in x for one in y, which has a row more in each block of channels.
std::int64_t before_token(const ImageShape& shape, std::int64_t channel, std::int64_t at) {
  return at - channel / shape.block * shape.block;
}

std::int64_t row_without_token(const ImageShape& shape, std::int64_t image, std::int64_t row) {
  return (image * shape.blocks * (shape.pixels - 1) + row - 1) * shape.block;
}

template <typename T>
void add_position(const ImageShape& shape, const AddTokens& of, std::int64_t image,
                  std::int64_t row) {
  T* y = static_cast<T*>(of.y) + shape.row_offset(image * shape.pixels + row);
  const float* position = of.positions.data() + row * shape.channels;
  if (row == 0) {
    for_channels(shape, [&](std::int64_t c, std::int64_t at, auto d) HWY_ATTR {
      store_values(hn::Add(hn::LoadU(d, of.token.data() + c), hn::LoadU(d, position + c)), d,
                   y + at);
    });
    return;
  }
  const T* x = static_cast<const T*>(of.x) + row_without_token(shape, image, row);
  for_channels(shape, [&](std::int64_t c, std::int64_t at, auto d) HWY_ATTR {
    store_values(
        hn::Add(load_values(d, x + before_token(shape, c, at)), hn::LoadU(d, position + c)), d,
        y + at);
  });
}

void AddImageTokens(Storage storage, const ImageShape& shape, const AddTokens& of,
                    std::int64_t image) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    for (std::int64_t row = 0; row < shape.pixels; ++row) add_position<T>(shape, of, image, row);
  });
}

// A position's gradient: the sum over the images, in order.
void AddTokensBackRow(Storage storage, const ImageShape& shape, const AddTokensBackward& of,
                      std::int64_t row) {
  float* sum = of.dpositions.data() + row * shape.channels;
  std::fill_n(sum, shape.channels, 0.0F);
  with_type(storage, [&]<typename T>() HWY_ATTR {
    for (std::int64_t image = 0; image < shape.images; ++image) {
      const T* dy = static_cast<const T*>(of.dy) + shape.row_offset(image * shape.pixels + row);
      T* dx = of.dx == nullptr || row == 0
                  ? nullptr
                  : static_cast<T*>(of.dx) + row_without_token(shape, image, row);
      for_channels(shape, [&](std::int64_t c, std::int64_t at, auto d) HWY_ATTR {
        const auto incoming = load_values(d, dy + at);
        hn::StoreU(hn::Add(incoming, hn::LoadU(d, sum + c)), d, sum + c);
        if (dx != nullptr) store_values(incoming, d, dx + before_token(shape, c, at));
      });
    }
  });
}

// Of more values than a vector has; the rest one by one.
float largest_of(const float* x, std::int64_t count) {
  const RowVector d;
  const auto step = static_cast<std::int64_t>(hn::Lanes(d));
  float largest = -std::numeric_limits<float>::infinity();
  auto wide = hn::Set(d, largest);
  std::int64_t i = 0;
  for (; i + step <= count; i += step) wide = hn::Max(wide, hn::LoadU(d, x + i));
  for (; i < count; ++i) largest = std::max(largest, x[i]);
  return std::max(largest, hn::GetLane(hn::MaxOfLanes(d, wide)));
}

template <typename T>
void softmax_row(float* x, T* y, std::int64_t columns, float scale) {
  const float most = largest_of(x, columns);
  RowSum sum;
  for_lanes(columns, [&](std::int64_t i, auto d) HWY_ATTR {
    const auto power =
        hn::Exp(d, hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, most)), hn::Set(d, scale)));
    sum.add(d, power);
    hn::StoreU(power, d, x + i);
  });
  const float share = 1.0F / sum.total();
  for_lanes(columns, [&](std::int64_t i, auto d) HWY_ATTR {
    store_values(hn::Mul(hn::LoadU(d, x + i), hn::Set(d, share)), d, y + i);
  });
}

template <typename T>
void softmax_back_row(const T* y, const float* dy, T* dx, std::int64_t columns, float scale) {
  RowSum sum;
  for_lanes(columns, [&](std::int64_t i, auto d) HWY_ATTR {
    sum.add(d, hn::Mul(load_values(d, y + i), hn::LoadU(d, dy + i)));
  });
  const float mean = sum.total();
  for_lanes(columns, [&](std::int64_t i, auto d) HWY_ATTR {
    const auto slope = hn::Mul(load_values(d, y + i), hn::Set(d, scale));
    store_values(hn::Mul(slope, hn::Sub(hn::LoadU(d, dy + i), hn::Set(d, mean))), d, dx + i);
  });
}

void SoftmaxRow(Storage storage, std::int64_t columns, const ScaledSoftmax& of, std::int64_t row) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    softmax_row(of.x + row * columns, static_cast<T*>(of.y) + row * columns, columns, of.scale);
  });
}

void SoftmaxBackRow(Storage storage, std::int64_t columns, const ScaledSoftmaxBackward& of,
                    std::int64_t row) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    softmax_back_row(static_cast<const T*>(of.y) + row * columns, of.dy + row * columns,
                     static_cast<T*>(of.dx) + row * columns, columns, of.scale);
  });
}

}  // namespace
}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer::ops {
namespace {

HWY_EXPORT(AddImageTokens);
HWY_EXPORT(AddTokensBackRow);
HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(SoftmaxBackRow);

// Unseen columns get a score whose share is 0.
void hide_columns(const RowsOf& shape, const ScaledSoftmax& of, std::int64_t row) {
  constexpr float kNoScore = -std::numeric_limits<float>::infinity();
  float* const x = of.x + row * shape.columns;
  if (of.seen.causal) std::fill(x + row % shape.columns + 1, x + shape.columns, kNoScore);
  const float* const mask = of.seen.mask + row / of.seen.rows * of.seen.stride;
  for (std::int64_t i = 0; i < of.seen.masked; ++i)
    if (mask[i] == 0.0F) x[shape.columns - of.seen.masked + i] = kNoScore;
}

// Calls f(offset in the row, index from `first` on, number) for the runs that lie together of the
// row's channels [first, first + count).
template <typename F>
void for_runs(const ImageShape& image, std::int64_t first, std::int64_t count, const F& f) {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t channel = first + done;
    const std::int64_t lane = channel % image.block;
    const std::int64_t run = std::min(image.block - lane, count - done);
    f(channel / image.block * image.block * image.pixels + lane, done, run);
    done += run;
  }
}

// Calls f(offset in the image's memory, offset in the heads' memory, number) for each run.
template <typename F>
void for_head_runs(const HeadCopy& copy, const F& f) {
  const std::int64_t tokens = copy.image.pixels;
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < copy.image.rows(); ++row) {
    const std::int64_t begin = copy.image.row_offset(row);
    for (std::int64_t head = 0; head < copy.heads; ++head) {
      const std::int64_t place =
          ((row / tokens * copy.heads + head) * tokens + row % tokens) * copy.size;
      for_runs(copy.image, copy.first + head * copy.size, copy.size,
               [&](std::int64_t at, std::int64_t done, std::int64_t run) {
                 f(begin + at, place + done, run);
               });
    }
  }
}

template <typename F>
void for_row_runs(const RowCopyOf& copy, const F& f) {
  for (std::int64_t image = 0; image < copy.image.images; ++image) {
    const std::int64_t begin = copy.image.row_offset(image * copy.image.pixels + copy.row);
    for_runs(copy.image, 0, copy.image.channels,
             [&](std::int64_t at, std::int64_t done, std::int64_t run) {
               f(begin + at, image * copy.image.channels + done, run);
             });
  }
}

// Values from one offset to another.
auto copier(const void* from, void* to, std::size_t value_bytes) {
  return [=](std::int64_t source, std::int64_t target, std::int64_t count) {
    const auto bytes = static_cast<std::int64_t>(value_bytes);
    std::memcpy(static_cast<std::byte*>(to) + target * bytes,
                static_cast<const std::byte*>(from) + source * bytes,
                static_cast<std::size_t>(count * bytes));
  };
}

}  // namespace

void add_tokens(Storage storage, const ImageShape& shape, const AddTokens& arguments) {
#pragma omp parallel for schedule(static)
  for (std::int64_t image = 0; image < shape.images; ++image)
    HWY_DYNAMIC_DISPATCH(AddImageTokens)(storage, shape, arguments, image);
}

void add_tokens_backward(Storage storage, const ImageShape& shape,
                         const AddTokensBackward& arguments) {
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < shape.pixels; ++row)
    HWY_DYNAMIC_DISPATCH(AddTokensBackRow)(storage, shape, arguments, row);
  std::ranges::copy(arguments.dpositions.first(arguments.dtoken.size()), arguments.dtoken.begin());
}

void scaled_softmax(Storage storage, const RowsOf& shape, const ScaledSoftmax& arguments) {
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    hide_columns(shape, arguments, row);
    HWY_DYNAMIC_DISPATCH(SoftmaxRow)(storage, shape.columns, arguments, row);
  }
}

void scaled_softmax_backward(Storage storage, const RowsOf& shape,
                             const ScaledSoftmaxBackward& arguments) {
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < shape.rows; ++row)
    HWY_DYNAMIC_DISPATCH(SoftmaxBackRow)(storage, shape.columns, arguments, row);
}

void copy_heads_from(const HeadCopy& copy, const void* image, void* heads) {
  for_head_runs(copy, copier(image, heads, copy.value_bytes));
}

void copy_heads_to(const HeadCopy& copy, const void* heads, void* image) {
  const auto move = copier(heads, image, copy.value_bytes);
  for_head_runs(
      copy, [&](std::int64_t at, std::int64_t place, std::int64_t run) { move(place, at, run); });
}

void copy_row_from(const RowCopyOf& copy, const void* image, void* features) {
  for_row_runs(copy, copier(image, features, copy.value_bytes));
}

void copy_row_to(const RowCopyOf& copy, const void* features, void* image) {
  const auto move = copier(features, image, copy.value_bytes);
  for_row_runs(
      copy, [&](std::int64_t at, std::int64_t place, std::int64_t run) { move(place, at, run); });
}

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE

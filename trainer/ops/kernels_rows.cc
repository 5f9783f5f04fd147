// Layer norm, and channels times weights: each over all channels of a pixel.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "trainer/ops/detail/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainer/ops/kernels_rows.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "trainer/ops/detail/vector-inl.h"

#ifndef MILLRACE_TRAINER_OPS_ROWS_ONCE
#define MILLRACE_TRAINER_OPS_ROWS_ONCE
namespace millrace::trainer::ops {
namespace {

/// Rows [begin, end): pixels of all images, in order.
struct RowRange {
  std::int64_t begin;
  std::int64_t end;
};

/// Sums over rows are added up in as many parts, whatever the number of threads.
constexpr std::int64_t kRowChunks = 64;

RowRange rows_of(const ImageShape& shape, std::int64_t chunk) {
  return {shape.rows() * chunk / kRowChunks, shape.rows() * (chunk + 1) / kRowChunks};
}

}  // namespace
}  // namespace millrace::trainer::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace millrace::trainer::ops::HWY_NAMESPACE {
namespace {

template <typename T>
void normalise_row(const ImageShape& shape, const LayerNormForward& of, std::int64_t row) {
  const std::int64_t first = shape.row_offset(row);
  const T* x = static_cast<const T*>(of.x) + first;
  T* y = static_cast<T*>(of.y) + first;
  const auto count = static_cast<float>(shape.channels);
  RowSum sum;
  for_channels(shape, [&](std::int64_t, std::int64_t at, auto d)
                          HWY_ATTR { sum.add(d, load_values(d, x + at)); });
  const float mean = sum.total() / count;
  RowSum squares;
  for_channels(shape, [&](std::int64_t, std::int64_t at, auto d) HWY_ATTR {
    const auto centred = hn::Sub(load_values(d, x + at), hn::Set(d, mean));
    squares.add(d, hn::Mul(centred, centred));
  });
  const float inverse = 1.0F / std::sqrt(squares.total() / count + of.epsilon);
  for_channels(shape, [&](std::int64_t c, std::int64_t at, auto d) HWY_ATTR {
    const auto normal =
        hn::Mul(hn::Sub(load_values(d, x + at), hn::Set(d, mean)), hn::Set(d, inverse));
    store_values(
        hn::MulAdd(normal, hn::LoadU(d, of.gamma.data() + c), hn::LoadU(d, of.beta.data() + c)), d,
        y + at);
  });
  of.statistics[static_cast<std::size_t>(2 * row)] = mean;
  of.statistics[static_cast<std::size_t>(2 * row + 1)] = inverse;
}

// `dgamma` and `dbeta` are the chunk's sums.
template <typename T>
void normalise_back_row(const ImageShape& shape, const LayerNormBackward& of, std::int64_t row,
                        float* dgamma, float* dbeta) {
  const std::int64_t first = shape.row_offset(row);
  const T* x = static_cast<const T*>(of.x) + first;
  const T* dy = static_cast<const T*>(of.dy) + first;
  T* dx = static_cast<T*>(of.dx) + first;
  const float mean = of.statistics[static_cast<std::size_t>(2 * row)];
  const float inverse = of.statistics[static_cast<std::size_t>(2 * row + 1)];
  const auto normal_at = [&](std::int64_t at, auto d) HWY_ATTR {
    return hn::Mul(hn::Sub(load_values(d, x + at), hn::Set(d, mean)), hn::Set(d, inverse));
  };
  RowSum sum;
  RowSum products;
  for_channels(shape, [&](std::int64_t c, std::int64_t at, auto d) HWY_ATTR {
    const auto normal = normal_at(at, d);
    const auto incoming = load_values(d, dy + at);
    const auto g = hn::Mul(incoming, hn::LoadU(d, of.gamma.data() + c));
    sum.add(d, g);
    products.add(d, hn::Mul(g, normal));
    hn::StoreU(hn::MulAdd(incoming, normal, hn::LoadU(d, dgamma + c)), d, dgamma + c);
    hn::StoreU(hn::Add(incoming, hn::LoadU(d, dbeta + c)), d, dbeta + c);
  });
  const auto count = static_cast<float>(shape.channels);
  const float shift = sum.total() / count;
  const float slope = products.total() / count;
  for_channels(shape, [&](std::int64_t c, std::int64_t at, auto d) HWY_ATTR {
    const auto g = hn::Mul(load_values(d, dy + at), hn::LoadU(d, of.gamma.data() + c));
    const auto common = hn::MulAdd(normal_at(at, d), hn::Set(d, slope), hn::Set(d, shift));
    store_values(hn::Mul(hn::Sub(g, common), hn::Set(d, inverse)), d, dx + at);
  });
}

template <typename T>
void weigh_row(const ImageShape& shape, const ChannelWeights& of, std::int64_t row) {
  const std::int64_t first = shape.row_offset(row);
  const T* x = static_cast<const T*>(of.x) + first;
  T* y = static_cast<T*>(of.y) + first;
  for_channels(shape, [&](std::int64_t c, std::int64_t at, auto d) HWY_ATTR {
    store_values(hn::Mul(load_values(d, x + at), hn::LoadU(d, of.weights.data() + c)), d, y + at);
  });
}

template <typename T>
void weigh_back_row(const ImageShape& shape, const ChannelWeightsBackward& of, std::int64_t row,
                    float* dweights) {
  const std::int64_t first = shape.row_offset(row);
  const T* x = static_cast<const T*>(of.x) + first;
  const T* dy = static_cast<const T*>(of.dy) + first;
  T* dx = static_cast<T*>(of.dx) + first;
  for_channels(shape, [&](std::int64_t c, std::int64_t at, auto d) HWY_ATTR {
    const auto incoming = load_values(d, dy + at);
    hn::StoreU(hn::MulAdd(incoming, load_values(d, x + at), hn::LoadU(d, dweights + c)), d,
               dweights + c);
    store_values(hn::Mul(incoming, hn::LoadU(d, of.weights.data() + c)), d, dx + at);
  });
}

void NormaliseRows(Storage storage, const ImageShape& shape, const LayerNormForward& of,
                   const RowRange& rows) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) normalise_row<T>(shape, of, row);
  });
}

void NormaliseBackRows(Storage storage, const ImageShape& shape, const LayerNormBackward& of,
                       const RowRange& rows, float* sums) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      normalise_back_row<T>(shape, of, row, sums, sums + shape.channels);
  });
}

void WeighRows(Storage storage, const ImageShape& shape, const ChannelWeights& of,
               const RowRange& rows) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) weigh_row<T>(shape, of, row);
  });
}

void WeighBackRows(Storage storage, const ImageShape& shape, const ChannelWeightsBackward& of,
                   const RowRange& rows, float* sums) {
  with_type(storage, [&]<typename T>() HWY_ATTR {
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      weigh_back_row<T>(shape, of, row, sums);
  });
}

}  // namespace
}  // namespace millrace::trainer::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::trainer::ops {
namespace {

HWY_EXPORT(NormaliseRows);
HWY_EXPORT(NormaliseBackRows);
HWY_EXPORT(WeighRows);
HWY_EXPORT(WeighBackRows);

// Calls run(rows, sums) for each chunk of rows; `sums` are `each` floats of the chunk's own, zero
// before.
template <typename Run>
void in_row_chunks(const ImageShape& shape, std::span<float> scratch, std::size_t each,
                   const Run& run) {
#pragma omp parallel for schedule(static)
  for (std::int64_t chunk = 0; chunk < kRowChunks; ++chunk) {
    const std::span<float> sums =
        each == 0 ? std::span<float>()
                  : scratch.subspan(static_cast<std::size_t>(chunk) * each, each);
    std::ranges::fill(sums, 0.0F);
    run(rows_of(shape, chunk), sums.data());
  }
}

// Of the chunks' floats `first` and on.
void add_up(std::span<const float> scratch, std::size_t each, std::size_t first,
            std::span<float> total) {
  for (std::size_t i = 0; i < total.size(); ++i) {
    double sum = 0;
    for (std::size_t at = first + i; at < scratch.size(); at += each)
      sum += static_cast<double>(scratch[at]);
    total[i] = static_cast<float>(sum);
  }
}

}  // namespace

std::size_t row_scratch(const ImageShape& shape, std::size_t sums) {
  return static_cast<std::size_t>(kRowChunks * shape.channels) * sums;
}

void layer_norm(Storage storage, const ImageShape& shape, const LayerNormForward& arguments) {
  in_row_chunks(shape, {}, 0, [&](const RowRange& rows, float*) {
    HWY_DYNAMIC_DISPATCH(NormaliseRows)(storage, shape, arguments, rows);
  });
}

void layer_norm_backward(Storage storage, const ImageShape& shape,
                         const LayerNormBackward& arguments) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  in_row_chunks(shape, arguments.scratch, 2 * channels, [&](const RowRange& rows, float* sums) {
    HWY_DYNAMIC_DISPATCH(NormaliseBackRows)(storage, shape, arguments, rows, sums);
  });
  add_up(arguments.scratch, 2 * channels, 0, arguments.dgamma);
  add_up(arguments.scratch, 2 * channels, channels, arguments.dbeta);
}

void weigh_channels(Storage storage, const ImageShape& shape, const ChannelWeights& arguments) {
  in_row_chunks(shape, {}, 0, [&](const RowRange& rows, float*) {
    HWY_DYNAMIC_DISPATCH(WeighRows)(storage, shape, arguments, rows);
  });
}

void weigh_channels_backward(Storage storage, const ImageShape& shape,
                             const ChannelWeightsBackward& arguments) {
  const auto channels = static_cast<std::size_t>(shape.channels);
  in_row_chunks(shape, arguments.scratch, channels, [&](const RowRange& rows, float* sums) {
    HWY_DYNAMIC_DISPATCH(WeighBackRows)(storage, shape, arguments, rows, sums);
  });
  add_up(arguments.scratch, channels, 0, arguments.dweights);
}

}  // namespace millrace::trainer::ops
#endif  // HWY_ONCE

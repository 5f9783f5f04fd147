#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/detail/kernels.cc"
#include <hwy/foreach_target.h>
// The order matters: highway.h comes after foreach_target.h, and what follows is compiled once for
// each kind of CPU.
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "decode/array.h"
#include "decode/detail/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::decode::detail::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One rounding product a tap, in 16-bit lanes: bytes stand 7 bits up, so that a tap's rounding
// error is 1/256 of a level.
template <class D16>
hn::Vec<hn::Rebind<std::uint8_t, D16>> blend_vector(D16 d16, const std::uint8_t* rows,
                                                    std::size_t stride, const std::int16_t* weights,
                                                    int taps) {
  const hn::Rebind<std::uint8_t, D16> d8;
  auto sum = hn::Set(d16, 64);
  for (int t = 0; t < taps; ++t, rows += stride) {
    const auto value = hn::ShiftLeft<7>(hn::PromoteTo(d16, hn::LoadU(d8, rows)));
    sum = hn::SaturatedAdd(sum, hn::MulFixedPoint15(value, hn::Set(d16, weights[t])));
  }
  return hn::DemoteTo(d8, hn::ShiftRight<7>(sum));
}

void blend_rows(const std::uint8_t* rows, std::size_t stride, const std::int16_t* weights, int taps,
                std::uint8_t* out, std::size_t count) {
  const hn::ScalableTag<std::int16_t> d16;
  const hn::Rebind<std::uint8_t, decltype(d16)> d8;
  const std::size_t lanes = hn::Lanes(d16);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(blend_vector(d16, rows + i, stride, weights, taps), d8, out + i);
  }
  const hn::CappedTag<std::int16_t, 1> one;
  for (; i < count; ++i) {
    hn::StoreU(blend_vector(one, rows + i, stride, weights, taps), hn::CappedTag<std::uint8_t, 1>(),
               out + i);
  }
}

// One value after another: for grey, and for a CPU whose vectors Highway does not know.
void resample_plain(const std::uint8_t* row, const Axis& axis, int channels, std::uint8_t* out) {
  const std::int16_t* weights = axis.weights.data();
  for (int i = 0; i < axis.count; ++i, weights += axis.taps) {
    const std::uint8_t* in =
        row + (axis.first[static_cast<std::size_t>(i)] - axis.begin) * channels;
    for (int c = 0; c < channels; ++c) {
      std::int32_t sum = 1 << 14;
      for (int t = 0; t < axis.used[static_cast<std::size_t>(i)]; ++t) {
        sum += in[t * channels + c] * weights[t];
      }
      out[i * channels + c] = static_cast<std::uint8_t>(sum >> 15);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR
// Bytes of two neighbouring pixels, zipped channel by channel and widened: r0 r1 g0 g1 b0 b1.
template <int kChannels>
void resample_colour(const std::uint8_t* row, const Axis& axis, std::uint8_t* out) {
  const hn::FixedTag<std::uint8_t, 16> d8;
  const hn::FixedTag<std::int16_t, 8> d16;
  const hn::FixedTag<std::int32_t, 4> d32;
  const hn::FixedTag<std::uint8_t, 4> d8_pixel;
  constexpr std::uint8_t z = 0x80;
  constexpr std::uint8_t c = kChannels;
  constexpr std::uint8_t a = c == 4 ? 3 : z;
  constexpr std::uint8_t b = c == 4 ? 7 : z;
  alignas(16) static constexpr std::uint8_t kPairs[16] = {0, z, c,     z, 1, z, c + 1, z,
                                                          2, z, c + 2, z, a, z, b,     z};
  const auto first_pair = hn::Load(d8, kPairs);
  const auto is_zero = hn::Eq(first_pair, hn::Set(d8, z));
  const auto second_pair =
      hn::IfThenElse(is_zero, first_pair, hn::Add(first_pair, hn::Set(d8, 2 * c)));
  const std::int16_t* weights = axis.weights.data();
  for (int i = 0; i < axis.count; ++i, weights += axis.taps) {
    const std::uint8_t* in = row + (axis.first[static_cast<std::size_t>(i)] - axis.begin) * c;
    auto sum0 = hn::Set(d32, 1 << 14);
    auto sum1 = hn::Zero(d32);
    for (int t = 0; t < axis.used[static_cast<std::size_t>(i)]; t += 4) {
      const auto bytes = hn::LoadU(d8, in + t * c);
      std::int32_t pair[2];
      std::memcpy(pair, weights + t, sizeof(pair));
      const auto low = hn::BitCast(d16, hn::TableLookupBytesOr0(bytes, first_pair));
      const auto high = hn::BitCast(d16, hn::TableLookupBytesOr0(bytes, second_pair));
      sum0 = hn::ReorderWidenMulAccumulate(d32, low, hn::BitCast(d16, hn::Set(d32, pair[0])), sum0,
                                           sum1);
      sum0 = hn::ReorderWidenMulAccumulate(d32, high, hn::BitCast(d16, hn::Set(d32, pair[1])), sum0,
                                           sum1);
    }
    const auto sum = hn::ShiftRight<15>(hn::RearrangeToOddPlusEven(sum0, sum1));
    hn::StoreU(hn::DemoteTo(d8_pixel, sum), d8_pixel, out + i * c);
  }
}

// Five pixels a step: the 16 bytes that end with the fifth, the first of them left out.
std::size_t mirror_rgb(const std::uint8_t* row, std::size_t width, std::uint8_t* out) {
  const hn::FixedTag<std::uint8_t, 16> d;
  alignas(16) static constexpr std::uint8_t kOrder[16] = {13, 14, 15, 10, 11, 12, 7, 8,
                                                          9,  4,  5,  6,  1,  2,  3, 0};
  const auto order = hn::Load(d, kOrder);
  std::size_t done = 0;
  for (; width - done >= 6; done += 5) {
    const auto pixels = hn::LoadU(d, row + 3 * (width - done) - 16);
    hn::StoreU(hn::TableLookupBytes(pixels, order), d, out + 3 * done);
  }
  return done;
}

// Whole vectors of RGB; gives how many pixels they were.
std::size_t split_rgb(const std::uint8_t* in, std::size_t width, std::uint8_t* out) {
  const hn::CappedTag<std::uint8_t, 64> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t x = 0;
  for (; x + lanes <= width; x += lanes) {
    hn::Vec<decltype(d)> r;
    hn::Vec<decltype(d)> g;
    hn::Vec<decltype(d)> b;
    hn::LoadInterleaved3(d, in + 3 * x, r, g, b);
    hn::StoreU(r, d, out + x);
    hn::StoreU(g, d, out + width + x);
    hn::StoreU(b, d, out + 2 * width + x);
  }
  return x;
}

#else

std::size_t mirror_rgb(const std::uint8_t*, std::size_t, std::uint8_t*) { return 0; }
std::size_t split_rgb(const std::uint8_t*, std::size_t, std::uint8_t*) { return 0; }

#endif  // HWY_TARGET != HWY_SCALAR

void resample_row(const std::uint8_t* row, const Axis& axis, int channels, std::uint8_t* out) {
#if HWY_TARGET != HWY_SCALAR
  if (channels == 3) return resample_colour<3>(row, axis, out);
  if (channels == 4) return resample_colour<4>(row, axis, out);
#endif
  resample_plain(row, axis, channels, out);
}

void mirror_row(const std::uint8_t* row, std::size_t width, int channels, std::uint8_t* out) {
  const auto c = static_cast<std::size_t>(channels);
  for (std::size_t i = channels == 3 ? mirror_rgb(row, width, out) : 0; i < width; ++i) {
    std::memcpy(out + i * c, row + (width - 1 - i) * c, c);
  }
}

using FloatTag = hn::CappedTag<float, 16>;

hn::Vec<FloatTag> scaled(const std::uint8_t* in, const ScalePattern& pattern, std::size_t place) {
  const FloatTag d;
  const hn::Rebind<std::int32_t, FloatTag> d32;
  const hn::Rebind<std::uint8_t, FloatTag> d8;
  const auto value = hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, in)));
  return hn::MulAdd(value, hn::LoadU(d, pattern.scale + place), hn::LoadU(d, pattern.bias + place));
}

float scaled_one(std::uint8_t in, const ScalePattern& pattern, std::size_t place) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(hn::MulAdd(hn::Set(d, static_cast<float>(in)),
                                hn::Set(d, pattern.scale[place]), hn::Set(d, pattern.bias[place])));
}

// A step is three vectors, so that each step begins at the pattern's beginning: with 4, 8 or 16
// lanes that is 12, 24 or 48 values.
template <class Store, class StoreOne>
void scale_row(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern, Store store,
               StoreOne store_one) {
  const std::size_t lanes = hn::Lanes(FloatTag());
  std::size_t i = 0;
  for (; lanes >= 4 && i + 3 * lanes <= count; i += 3 * lanes) {
    store(i, scaled(in + i, pattern, 0));
    store(i + lanes, scaled(in + i + lanes, pattern, lanes));
    store(i + 2 * lanes, scaled(in + i + 2 * lanes, pattern, 2 * lanes));
  }
  for (std::size_t j = 0; i + j < count; ++j) {
    store_one(i + j, scaled_one(in[i + j], pattern, j % kPatternSize));
  }
}

void scale_to_float(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                    float* out) {
  scale_row(
      in, count, pattern,
      [out](std::size_t i, hn::Vec<FloatTag> value) { hn::StoreU(value, FloatTag(), out + i); },
      [out](std::size_t i, float value) { out[i] = value; });
}

hn::Vec<hn::Rebind<std::uint16_t, FloatTag>> rounded(hn::Vec<FloatTag> value) {
  const hn::Rebind<std::uint32_t, FloatTag> d32;
  const hn::Rebind<std::int32_t, FloatTag> di32;
  const hn::Rebind<std::uint16_t, FloatTag> d16;
  const auto bits = hn::BitCast(d32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto up = hn::Add(hn::Add(bits, hn::Set(d32, 0x7FFF)), odd);
  return hn::DemoteTo(d16, hn::BitCast(di32, hn::ShiftRight<16>(up)));
}

void scale_to_bfloat16(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                       std::uint16_t* out) {
  scale_row(
      in, count, pattern,
      [out](std::size_t i, hn::Vec<FloatTag> value) {
        hn::StoreU(rounded(value), hn::Rebind<std::uint16_t, FloatTag>(), out + i);
      },
      [out](std::size_t i, float value) { out[i] = to_bfloat16(value); });
}

void split_channels(const std::uint8_t* in, std::size_t width, std::size_t channels,
                    std::uint8_t* out) {
  for (std::size_t x = channels == 3 ? split_rgb(in, width, out) : 0; x < width; ++x) {
    for (std::size_t c = 0; c < channels; ++c) out[c * width + x] = in[channels * x + c];
  }
}

}  // namespace millrace::decode::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace millrace::decode::detail {

HWY_EXPORT(blend_rows);
HWY_EXPORT(resample_row);
HWY_EXPORT(mirror_row);
HWY_EXPORT(scale_to_float);
HWY_EXPORT(scale_to_bfloat16);
HWY_EXPORT(split_channels);

void blend_rows(const std::uint8_t* rows, std::size_t stride, const std::int16_t* weights, int taps,
                std::uint8_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(blend_rows)(rows, stride, weights, taps, out, count);
}

void resample_row(const std::uint8_t* row, const Axis& axis, int channels, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(resample_row)(row, axis, channels, out);
}

void mirror_row(const std::uint8_t* row, std::size_t width, int channels, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(mirror_row)(row, width, channels, out);
}

void scale_to_float(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                    float* out) {
  HWY_DYNAMIC_DISPATCH(scale_to_float)(in, count, pattern, out);
}

void scale_to_bfloat16(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                       std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(scale_to_bfloat16)(in, count, pattern, out);
}

void split_channels(const std::uint8_t* in, std::size_t width, std::size_t channels,
                    std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(split_channels)(in, width, channels, out);
}

}  // namespace millrace::decode::detail
#endif  // HWY_ONCE

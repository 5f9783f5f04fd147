#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "decode/detail/kernels.cc"
#include <hwy/foreach_target.h>
// The order matters: highway.h comes after foreach_target.h, and what follows is compiled once per
// instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "decode/array.h"
#include "decode/detail/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace millrace::decode::detail::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Bytes are shifted left by 7 in 16-bit lanes, with one rounding product per tap: the rounding
// error of a tap is 1/256 of a level.
template <class D16>
HWY_INLINE hn::Vec<D16> blend_bytes(D16 d16, const std::uint8_t* rows, std::size_t stride,
                                    const std::int16_t* weights, int taps) {
  const hn::Rebind<std::uint8_t, D16> d8;
  auto sum = hn::Zero(d16);
  for (int t = 0; t < taps; ++t, rows += stride) {
    const auto value = hn::ShiftLeft<7>(hn::PromoteTo(d16, hn::LoadU(d8, rows)));
    sum = hn::SaturatedAdd(sum, hn::MulFixedPoint15(value, hn::Set(d16, weights[t])));
  }
  return sum;
}

/// `bits`: those of the sum that are behind the point.
template <class D16>
HWY_INLINE hn::Vec<hn::Rebind<std::uint8_t, D16>> to_bytes(D16 d16, hn::Vec<D16> sum, int bits) {
  const auto half = static_cast<std::int16_t>(1 << (bits - 1));
  const auto rounded = hn::SaturatedAdd(sum, hn::Set(d16, half));
  return hn::DemoteTo(hn::Rebind<std::uint8_t, D16>(), hn::ShiftRightSame(rounded, bits));
}

// Calls step(d, i) for vectors that cover [0, count); the last overlaps the one before.
template <class Step>
HWY_INLINE void for_vectors(std::size_t count, Step step) {
  const hn::ScalableTag<std::int16_t> d16;
  const std::size_t lanes = hn::Lanes(d16);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) step(d16, i);
  if (i < count && count >= lanes) return step(d16, count - lanes);
  for (; i < count; ++i) step(hn::CappedTag<std::int16_t, 1>(), i);
}

void blend_rows(const std::uint8_t* rows, std::size_t stride, const std::int16_t* weights, int taps,
                int bits, std::uint8_t* out, std::size_t count) {
  for_vectors(count, [=](auto d16, std::size_t i) HWY_ATTR {
    const auto sum = blend_bytes(d16, rows + i, stride, weights, taps);
    hn::StoreU(to_bytes(d16, sum, bits - 8), hn::Rebind<std::uint8_t, decltype(d16)>(), out + i);
  });
}

void blend_rows_fine(const std::uint8_t* rows, std::size_t stride, const std::int16_t* weights,
                     int taps, std::int16_t* out, std::size_t count) {
  for_vectors(count, [=](auto d16, std::size_t i) HWY_ATTR {
    hn::StoreU(blend_bytes(d16, rows + i, stride, weights, taps), d16, out + i);
  });
}

void resample_band(const std::int16_t* band, const Axis& axis, std::uint8_t* out) {
  const hn::CappedTag<std::int16_t, kBandLanes> d16;
  const hn::Rebind<std::uint8_t, decltype(d16)> d8;
  const std::int16_t* weights = axis.weights.data();
  const int bits = 2 * axis.bits - 23;  // two products by weights, of levels with 7 bits
  for (int i = 0; i < axis.count; ++i, weights += axis.taps, out += kBandLanes) {
    const auto at = static_cast<std::size_t>(i);
    const auto column = static_cast<std::size_t>(axis.first[at] - axis.begin);
    for (std::size_t k = 0; k < kBandLanes; k += hn::Lanes(d16)) {
      const std::int16_t* in = band + column * kBandLanes + k;
      auto sum = hn::Zero(d16);
      for (int t = 0; t < axis.used[at]; ++t, in += kBandLanes) {
        const auto product = hn::MulFixedPoint15(hn::LoadU(d16, in), hn::Set(d16, weights[t]));
        sum = hn::SaturatedAdd(sum, product);
      }
      hn::StoreU(to_bytes(d16, sum, bits), d8, out + k);
    }
  }
}

#if HWY_TARGET != HWY_SCALAR

using Pixels = hn::FixedTag<std::uint8_t, 16>;
using Words = hn::FixedTag<std::uint32_t, 4>;
using Pairs = hn::FixedTag<std::uint64_t, 2>;
using PixelVec = hn::Vec<Pixels>;

alignas(16) constexpr std::uint8_t kKeep[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                8, 9, 10, 11, 12, 13, 14, 15};

// How many of `width` pixels can be processed `step` at a time by 16-byte vectors that begin at a
// pixel and stay inside the row.
HWY_INLINE std::size_t whole_steps(std::size_t width, std::size_t pixel_bytes, std::size_t step) {
  const std::size_t bytes = width * pixel_bytes;
  return bytes < 16 ? 0 : ((bytes - 16) / (step * pixel_bytes) + 1) * step;
}

// Two pixels of two rows at a time. Returns how many pixels of each row were processed.
std::size_t colour_rows_to_band(const std::int16_t* const* rows, std::size_t width,
                                std::size_t channels, std::int16_t* band) {
  // RGB to RGBx, where x is whatever follows.
  alignas(16) static constexpr std::uint8_t kWiden[16] = {0, 1, 2, 3, 4,  5,  6,  7,
                                                          6, 7, 8, 9, 10, 11, 12, 13};
  const Pixels d;
  const Pairs pairs;
  const hn::FixedTag<std::int16_t, 8> d16;
  const auto order = hn::Load(d, channels == 3 ? kWiden : kKeep);
  const std::size_t end = whole_steps(width, 2 * channels, 2);
  for (std::size_t x = 0; x < end; x += 2, band += 2 * kBandLanes) {
    const auto load = [&](std::size_t r) HWY_ATTR {
      const auto pixels = hn::LoadU(d16, rows[r] + x * channels);
      return hn::BitCast(pairs, hn::TableLookupBytes(hn::BitCast(d, pixels), order));
    };
    for (std::size_t r = 0; r < 8; r += 2) {
      const auto a = load(r);
      const auto b = load(r + 1);
      hn::StoreU(hn::BitCast(d16, hn::InterleaveLower(pairs, a, b)), d16, band + 4 * r);
      hn::StoreU(hn::BitCast(d16, hn::InterleaveUpper(pairs, a, b)), d16,
                 band + kBandLanes + 4 * r);
    }
  }
  return end;
}

// Transposes 4 × 4 pixels.
HWY_INLINE void transpose(PixelVec& a, PixelVec& b, PixelVec& c, PixelVec& d) {
  const Words words;
  const Pairs pairs;
  const Pixels pixels;
  const auto word = [&](PixelVec v) HWY_ATTR { return hn::BitCast(words, v); };
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(words, word(a), word(b)));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(words, word(a), word(b)));
  const auto cd_low = hn::BitCast(pairs, hn::InterleaveLower(words, word(c), word(d)));
  const auto cd_high = hn::BitCast(pairs, hn::InterleaveUpper(words, word(c), word(d)));
  a = hn::BitCast(pixels, hn::InterleaveLower(pairs, ab_low, cd_low));
  b = hn::BitCast(pixels, hn::InterleaveUpper(pairs, ab_low, cd_low));
  c = hn::BitCast(pixels, hn::InterleaveLower(pairs, ab_high, cd_high));
  d = hn::BitCast(pixels, hn::InterleaveUpper(pairs, ab_high, cd_high));
}

// Four pixels of four rows at a time. Returns how many pixels of each row were processed.
std::size_t colour_band_to_rows(const std::uint8_t* band, std::size_t width, std::size_t channels,
                                std::uint8_t* out, std::size_t stride) {
  alignas(16) static constexpr std::uint8_t kNarrow[16] = {0,  1,  2,  4,  5, 6, 8, 9,
                                                           10, 12, 13, 14, 0, 0, 0, 0};
  const Pixels d;
  const auto order = hn::Load(d, channels == 3 ? kNarrow : kKeep);
  const std::size_t end = whole_steps(width, channels, 4);
  for (std::size_t x = 0; x < end; x += 4, band += 4 * kBandLanes) {
    for (std::size_t half = 0; half < 2; ++half) {
      const std::uint8_t* in = band + 16 * half;
      auto a = hn::LoadU(d, in);
      auto b = hn::LoadU(d, in + kBandLanes);
      auto c = hn::LoadU(d, in + 2 * kBandLanes);
      auto e = hn::LoadU(d, in + 3 * kBandLanes);
      transpose(a, b, c, e);
      std::uint8_t* first = out + 4 * half * stride + x * channels;
      hn::StoreU(hn::TableLookupBytes(a, order), d, first);
      hn::StoreU(hn::TableLookupBytes(b, order), d, first + stride);
      hn::StoreU(hn::TableLookupBytes(c, order), d, first + 2 * stride);
      hn::StoreU(hn::TableLookupBytes(e, order), d, first + 3 * stride);
    }
  }
  return end;
}

// Five pixels per step: the 16 bytes that end with the fifth, without the first byte.
std::size_t mirror_rgb(const std::uint8_t* row, std::size_t width, std::uint8_t* out) {
  const Pixels d;
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

// Whole vectors of RGB. Returns how many pixels were processed.
std::size_t split_rgb(const std::uint8_t* in, std::size_t width, std::uint8_t* out) {
  const hn::CappedTag<std::uint8_t, 32> d;
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

std::size_t colour_rows_to_band(const std::int16_t* const*, std::size_t, std::size_t,
                                std::int16_t*) {
  return 0;
}
std::size_t colour_band_to_rows(const std::uint8_t*, std::size_t, std::size_t, std::uint8_t*,
                                std::size_t) {
  return 0;
}
std::size_t mirror_rgb(const std::uint8_t*, std::size_t, std::uint8_t*) { return 0; }
std::size_t split_rgb(const std::uint8_t*, std::size_t, std::uint8_t*) { return 0; }

#endif  // HWY_TARGET != HWY_SCALAR

void rows_to_band(const std::int16_t* const* rows, std::size_t width, int channels,
                  std::int16_t* band) {
  const auto c = static_cast<std::size_t>(channels);
  const std::size_t done = c == 1 ? 0 : colour_rows_to_band(rows, width, c, band);
  const std::size_t count = band_rows(channels);
  const std::size_t place = kBandLanes / count;
  for (std::size_t x = done; x < width; ++x) {
    for (std::size_t r = 0; r < count; ++r) {
      std::copy_n(rows[r] + x * c, c, band + x * kBandLanes + r * place);
    }
  }
}

void band_to_rows(const std::uint8_t* band, std::size_t width, int channels, std::uint8_t* out,
                  std::size_t stride) {
  const auto c = static_cast<std::size_t>(channels);
  const std::size_t done = c == 1 ? 0 : colour_band_to_rows(band, width, c, out, stride);
  const std::size_t count = band_rows(channels);
  const std::size_t place = kBandLanes / count;
  for (std::size_t r = 0; r < count; ++r) {
    for (std::size_t x = done; x < width; ++x) {
      std::memcpy(out + r * stride + x * c, band + x * kBandLanes + r * place, c);
    }
  }
}

void mirror_row(const std::uint8_t* row, std::size_t width, int channels, std::uint8_t* out) {
  const auto c = static_cast<std::size_t>(channels);
  for (std::size_t i = channels == 3 ? mirror_rgb(row, width, out) : 0; i < width; ++i) {
    std::memcpy(out + i * c, row + (width - 1 - i) * c, c);
  }
}

using FloatTag = hn::CappedTag<float, 16>;

template <class D>
HWY_INLINE hn::Vec<D> scaled(D d, const std::uint8_t* in, const ScalePattern& pattern,
                             std::size_t place) {
  const hn::Rebind<std::int32_t, D> d32;
  const hn::Rebind<std::uint8_t, D> d8;
  const auto value = hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(d8, in)));
  return hn::MulAdd(value, hn::LoadU(d, pattern.scale + place), hn::LoadU(d, pattern.bias + place));
}

// After three vectors (12, 24 or 48 values) the pattern starts over. The last vector overlaps the
// one before.
template <class Store>
HWY_INLINE void scale_row(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                          Store store) {
  const FloatTag d;
  const std::size_t lanes = hn::Lanes(d);
  const auto step = [&](std::size_t i, std::size_t place)
                        HWY_ATTR { store(d, i, scaled(d, in + i, pattern, place)); };
  std::size_t i = 0;
  for (; i + 3 * lanes <= count; i += 3 * lanes) {
    step(i, 0);
    step(i + lanes, lanes);
    step(i + 2 * lanes, 2 * lanes);
  }
  for (; i + lanes <= count; i += lanes) step(i, i % pattern.channels);
  if (count >= lanes) {
    if (i < count) step(count - lanes, (count - lanes) % pattern.channels);
    return;
  }
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) store(one, i, scaled(one, in + i, pattern, i % pattern.channels));
}

void scale_to_float(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                    float* out) {
  scale_row(in, count, pattern,
            [out](auto d, std::size_t i, auto value) HWY_ATTR { hn::StoreU(value, d, out + i); });
}

template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> rounded(D /*d*/, hn::Vec<D> value) {
  const hn::Rebind<std::uint32_t, D> d32;
  const hn::Rebind<std::int32_t, D> di32;
  const hn::Rebind<std::uint16_t, D> d16;
  const auto bits = hn::BitCast(d32, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto up = hn::Add(hn::Add(bits, hn::Set(d32, 0x7FFF)), odd);
  return hn::DemoteTo(d16, hn::BitCast(di32, hn::ShiftRight<16>(up)));
}

void scale_to_bfloat16(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                       std::uint16_t* out) {
  scale_row(in, count, pattern, [out](auto d, std::size_t i, auto value) HWY_ATTR {
    const hn::Rebind<std::uint16_t, decltype(d)> d16;
    hn::StoreU(rounded(d, value), d16, out + i);
  });
}

/// As to_float16(), of what is no NaN: by F16C, or in integers.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, D>> half_precision(D d, hn::Vec<D> value) {
  const hn::Rebind<std::uint16_t, D> d16;
#if HWY_TARGET <= HWY_AVX2
  const hn::Rebind<hwy::float16_t, D> half;
  (void)d;
  return hn::BitCast(d16, hn::DemoteTo(half, value));
#else
  const hn::Rebind<std::int32_t, D> d32;
  const auto bits = hn::BitCast(d32, value);
  const auto magnitude = hn::And(bits, hn::Set(d32, 0x7FFFFFFF));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d32, 1));
  const auto up = hn::Add(hn::Add(magnitude, hn::Set(d32, 0xFFF - (112 << 23))), odd);
  const auto tiny = hn::Sub(hn::BitCast(d32, hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5F))),
                            hn::Set(d32, 126 << 23));
  auto half =
      hn::IfThenElse(hn::Lt(magnitude, hn::Set(d32, 113 << 23)), tiny, hn::ShiftRight<13>(up));
  half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d32, 143 << 23)), half, hn::Set(d32, 0x7C00));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 0x8000));
  return hn::DemoteTo(d16, hn::Or(half, sign));
#endif
}

void scale_to_float16(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                      std::uint16_t* out) {
  scale_row(in, count, pattern, [out](auto d, std::size_t i, auto value) HWY_ATTR {
    const hn::Rebind<std::uint16_t, decltype(d)> d16;
    hn::StoreU(half_precision(d, value), d16, out + i);
  });
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
HWY_EXPORT(blend_rows_fine);
HWY_EXPORT(rows_to_band);
HWY_EXPORT(resample_band);
HWY_EXPORT(band_to_rows);
HWY_EXPORT(mirror_row);
HWY_EXPORT(scale_to_float);
HWY_EXPORT(scale_to_bfloat16);
HWY_EXPORT(scale_to_float16);
HWY_EXPORT(split_channels);

void blend_rows(const std::uint8_t* rows, std::size_t stride, const std::int16_t* weights, int taps,
                int bits, std::uint8_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(blend_rows)(rows, stride, weights, taps, bits, out, count);
}

void blend_rows_fine(const std::uint8_t* rows, std::size_t stride, const std::int16_t* weights,
                     int taps, std::int16_t* out, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(blend_rows_fine)(rows, stride, weights, taps, out, count);
}

void rows_to_band(const std::int16_t* const* rows, std::size_t width, int channels,
                  std::int16_t* band) {
  HWY_DYNAMIC_DISPATCH(rows_to_band)(rows, width, channels, band);
}

void resample_band(const std::int16_t* band, const Axis& axis, std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(resample_band)(band, axis, out);
}

void band_to_rows(const std::uint8_t* band, std::size_t width, int channels, std::uint8_t* out,
                  std::size_t stride) {
  HWY_DYNAMIC_DISPATCH(band_to_rows)(band, width, channels, out, stride);
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

void scale_to_float16(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                      std::uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(scale_to_float16)(in, count, pattern, out);
}

void split_channels(const std::uint8_t* in, std::size_t width, std::size_t channels,
                    std::uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(split_channels)(in, width, channels, out);
}

}  // namespace millrace::decode::detail
#endif  // HWY_ONCE

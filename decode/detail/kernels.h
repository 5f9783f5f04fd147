// The inner loops over pixels, vectorised; the CPU's widest instruction set is chosen at run
// time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "decode/detail/axis.h"

namespace millrace::decode::detail {

/// out[i] = Σ_t weights[t] · rows[t · stride + i] / 2^bits, rounded, for i < count. Sums are below
/// 2^(16 - bits) levels' range.
void blend_rows(const std::uint8_t* rows, std::size_t stride, const std::int16_t* weights, int taps,
                int bits, std::uint8_t* out, std::size_t count);
/// The same with bits - 8 fractional bits, so that a second sum does not round twice.
void blend_rows_fine(const std::uint8_t* rows, std::size_t stride, const std::int16_t* weights,
                     int taps, std::int16_t* out, std::size_t count);

/// A band holds several rows interleaved pixel by pixel, so that sums along a row become vertical
/// ones. A column has kBandLanes values: 32 rows of grey, or 8 rows of colour with 4 values per
/// pixel.
inline constexpr std::size_t kBandLanes = 32;
inline constexpr std::size_t band_rows(int channels) { return channels == 1 ? 32 : 8; }

/// Interleaves band_rows(channels) rows of `width` pixels with fractional bits into a band.
void rows_to_band(const std::int16_t* const* rows, std::size_t width, int channels,
                  std::int16_t* band);
/// The axis's weighted sums: a band of axis.count columns from one that begins at pixel axis.begin.
void resample_band(const std::int16_t* band, const Axis& axis, std::uint8_t* out);
/// Splits the band into rows: row `r` goes to out + r · stride.
void band_to_rows(const std::uint8_t* band, std::size_t width, int channels, std::uint8_t* out,
                  std::size_t stride);

/// Reverses the order of `width` pixels. Requires: 16 writable bytes after the output.
void mirror_row(const std::uint8_t* row, std::size_t width, int channels, std::uint8_t* out);

/// The mapping of a byte by its position i in the row: value · scale[i] + bias[i],
/// periodic in `channels`. Long enough for three of the longest vectors, starting at any
/// channel.
struct ScalePattern {
  static constexpr std::size_t kSize = 52;
  std::size_t channels = 1;  ///< 1, 3 or 4
  float scale[kSize] = {};
  float bias[kSize] = {};
};

void scale_to_float(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                    float* out);
/// Rounds to nearest even. Requires: no scale or bias is infinite or NaN.
void scale_to_bfloat16(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                       std::uint16_t* out);
/// Likewise.
void scale_to_float16(const std::uint8_t* in, std::size_t count, const ScalePattern& pattern,
                      std::uint16_t* out);

/// (W, C) to (C, W).
void split_channels(const std::uint8_t* in, std::size_t width, std::size_t channels,
                    std::uint8_t* out);

}  // namespace millrace::decode::detail

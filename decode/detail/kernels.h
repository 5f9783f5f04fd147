// The inner loops over pixels, vectorised; the widest instructions that the CPU has are chosen at
// run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "decode/detail/axis.h"

namespace millrace::decode::detail {

/// out[i] = Σ_t weights[t] · rows[t · stride + i] / 2^15, rounded, for i < count.
void blend_rows(const std::uint8_t* rows, std::size_t stride, const std::int16_t* weights, int taps,
                std::uint8_t* out, std::size_t count);
/// The same with 7 bits behind the point, so that a second sum does not round twice.
void blend_rows_fine(const std::uint8_t* rows, std::size_t stride, const std::int16_t* weights,
                     int taps, std::int16_t* out, std::size_t count);

/// A band is some rows side by side, pixel by pixel, so that sums along a row are vertical ones.
/// A column has kBandLanes values: 32 rows of grey, or 8 rows of colour, 4 values a pixel.
inline constexpr std::size_t kBandLanes = 32;
inline constexpr std::size_t band_rows(int channels) { return channels == 1 ? 32 : 8; }

/// Puts band_rows(channels) rows of `width` pixels with 7 bits behind the point into a band.
void rows_to_band(const std::int16_t* const* rows, std::size_t width, int channels,
                  std::int16_t* band);
/// The axis' weighted sums: a band of axis.count columns from one whose first is pixel axis.begin.
void resample_band(const std::int16_t* band, const Axis& axis, std::uint8_t* out);
/// Takes the band apart: row `r` goes to out + r · stride.
void band_to_rows(const std::uint8_t* band, std::size_t width, int channels, std::uint8_t* out,
                  std::size_t stride);

/// Reverses the order of `width` pixels. The 16 bytes behind out must be writable.
void mirror_row(const std::uint8_t* row, std::size_t width, int channels, std::uint8_t* out);

/// What a byte becomes, by its place in the row: value · scale[place] + bias[place], where place i
/// stands for place i + channels too. As long as three of the longest vectors, begun in any
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

/// (W, C) to (C, W).
void split_channels(const std::uint8_t* in, std::size_t width, std::size_t channels,
                    std::uint8_t* out);

}  // namespace millrace::decode::detail

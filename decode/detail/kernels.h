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

/// The axis' weighted sums along a row of `channels` (1, 3 or 4) values a pixel. `row` is input
/// pixel axis.begin; the 32 bytes after axis.end must be readable, as the 16 behind out writable.
void resample_row(const std::uint8_t* row, const Axis& axis, int channels, std::uint8_t* out);

/// Reverses the order of `width` pixels. The 16 bytes behind out must be writable.
void mirror_row(const std::uint8_t* row, std::size_t width, int channels, std::uint8_t* out);

/// Values of a pattern: it repeats after as many as 1, 3, 4 and any vector's length divide.
inline constexpr std::size_t kPatternSize = 48;

/// What a byte becomes, by its place in the row modulo kPatternSize: value · scale + bias.
struct ScalePattern {
  alignas(64) float scale[kPatternSize] = {};
  alignas(64) float bias[kPatternSize] = {};
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

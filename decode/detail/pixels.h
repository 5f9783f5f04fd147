// Pixel buffers, and conversions between channel counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "decode/codec.h"

namespace millrace::decode::detail {

/// Padding after pixels, in values, so that vectors may read past the last one.
inline constexpr std::size_t kPadding = 64;

/// Grows `buffer` to hold at least `size` values and the padding; never shrinks.
template <typename T>
T* reserve_pixels(std::vector<T>& buffer, std::size_t size) {
  if (buffer.size() < size + kPadding) buffer.resize(size + kPadding);
  return buffer.data();
}

/// 0.299 R + 0.587 G + 0.114 B in 16-bit fixed point, rounded: PIL's convert("L") to the bit.
inline std::uint8_t luma(const std::uint8_t* rgb) {
  const std::uint32_t sum = rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U;
  return static_cast<std::uint8_t>(sum >> 16);
}

/// Converts `count` pixels between 1, 3 and 4 channels: grey is repeated, RGB becomes ITU-R 601
/// luma, alpha is dropped or set to 255. `in` and `out` must not overlap.
void convert_channels(const std::uint8_t* in, int in_channels, std::uint8_t* out, int out_channels,
                      std::size_t count);

}  // namespace millrace::decode::detail

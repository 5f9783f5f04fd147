// PNG through libpng: 8-bit pixels from every colour type and depth.
//
// Source: the PNG specification (ISO/IEC 15948).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/detail/pixels.h"
#include "decode/limits.h"

namespace millrace::decode::detail {

struct PngHeader {
  int width = 0;
  int height = 0;
  /// 1 grey, 3 colour or palette, 4 with alpha or a transparent colour.
  int channels = 0;
  bool interlaced = false;
  /// The pixels stay the numbers that the file stores; then channels is 1.
  bool numbers = false;
  /// Of a number: 2 for 16-bit grey, the high byte first.
  int number_bytes = 1;
  /// What is odd about the chunks, though nothing is lost; empty for nearly all files.
  std::string_view untidy = {};
};

/// Walks the chunks, so that no claimed length goes beyond the data.
/// Throws: Corrupt, Truncated, Exhausted.
PngHeader read_png_header(std::span<const std::byte> data, const Limits& limits, Numbers numbers);

/// The rows [first, first + count) as `channels` (1 only where the file is grey, 3 or 4) values a
/// pixel, or the numbers' bytes as channels; damage behind the last row asked for goes unseen.
/// `untidy` becomes libpng's first warning of something that costs no pixel, if there is one.
/// Throws: Corrupt, Truncated.
PixelView read_png(std::span<const std::byte> data, const PngHeader& header, int first, int count,
                   int channels, std::vector<std::uint8_t>& buffer, std::string& untidy);

}  // namespace millrace::decode::detail

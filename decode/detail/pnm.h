// PPM, PGM and PBM: the header, and the pixels, shown where they lie when they are 8-bit already.
//
// Source: the netpbm manual pages ppm(5), pgm(5), pbm(5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/detail/pixels.h"
#include "decode/limits.h"

namespace millrace::decode::detail {

struct PnmHeader {
  int width = 0;
  int height = 0;
  int channels = 0;     ///< 1 or 3
  int max_value = 255;  ///< 1 for PBM, whose ones are black
  bool plain = false;   ///< numbers in text
  bool bitmap = false;
  /// Grey levels stay as they stand, two bytes each where max_value is above 255; a PBM's black is
  /// 1.
  bool numbers = false;
  std::size_t offset = 0;  ///< of the first pixel
};

/// Throws: Corrupt, Truncated (also when the pixels are cut), Exhausted.
PnmHeader read_pnm_header(std::span<const std::byte> data, const Limits& limits, bool numbers);

/// All pixels, in the file's channels, or as numbers: in place, or converted in `buffer`. Throws:
/// Corrupt.
PixelView read_pnm(std::span<const std::byte> data, const PnmHeader& header,
                   std::vector<std::uint8_t>& buffer);

}  // namespace millrace::decode::detail

// PNGs of any colour type, depth and interlacing, with the expected decoded values.
#pragma once

#include <cstdint>
#include <vector>

#include "io/bytes.h"

namespace millrace::testing {

struct PngShape {
  int colour_type = 2;  ///< 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha
  int bit_depth = 8;
  bool interlaced = false;
  bool transparent = false;  ///< a tRNS chunk: one colour, or an alpha for every palette entry
  int height = 13;
  int width = 19;
};

struct BuiltPng {
  io::Bytes file;
  std::vector<std::uint8_t> rgb;      ///< (H, W, 3)
  std::vector<std::uint8_t> rgba;     ///< (H, W, 4)
  std::vector<std::uint8_t> indices;  ///< (H, W), palette indices
  std::vector<std::int64_t> numbers;  ///< (H, W), each pixel's first sample as stored
};

/// Pseudo-random pixels; the expected values are computed from the samples, not by libpng.
BuiltPng build_png(const PngShape& shape, std::uint64_t seed);

}  // namespace millrace::testing

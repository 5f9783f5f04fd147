// TIFF files with what cameras, scanners and microscopes write, by libtiff.
#pragma once

#include <cstdint>
#include <vector>

#include "decode/image.h"
#include "io/bytes.h"

namespace millrace::testing {

struct TiffOptions {
  /// 8 or 16: a sample of 16 bits is 257 times that of 8.
  int bits = 8;
  /// libtiff's number: 1 none, 5 LZW, 7 JPEG, 8 deflate.
  int compression = 1;
  bool tiled = false;
  /// Each colour's values apart.
  bool planes = false;
  /// Whether 0 is white; for grey pictures.
  bool min_is_white = false;
  int orientation = 1;
  int pages = 1;
  /// Samples of no stated meaning behind the colours.
  int extra = 0;
};

io::Bytes build_tiff(const decode::Image& image, const TiffOptions& options = {});

/// Cyan, magenta, yellow and black, of 8 or 16 bits.
io::Bytes build_cmyk_tiff(int height, int width, int bits);

/// Grey levels of 16 bits, (height, width).
io::Bytes build_tiff_levels(const std::vector<std::uint16_t>& levels, int width);

}  // namespace millrace::testing

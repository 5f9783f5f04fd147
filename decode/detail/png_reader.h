// PNG through libpng: 8-bit pixels from every colour type and depth.
//
// Source: the PNG specification (ISO/IEC 15948).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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
  /// A palette image whose pixels are to stay indices; then channels is 1.
  bool indices = false;
};

/// Walks the chunks, so that no claimed length goes beyond the data. `palette_indices`: see above.
/// Throws: Corrupt, Truncated, Exhausted.
PngHeader read_png_header(std::span<const std::byte> data, const Limits& limits,
                          bool palette_indices);

/// The rows [first, first + count) as `channels` (1 only where the file is grey, 3 or 4) values a
/// pixel; damage behind the last row asked for goes unseen. Throws: Corrupt, Truncated.
PixelView read_png(std::span<const std::byte> data, const PngHeader& header, int first, int count,
                   int channels, std::vector<std::uint8_t>& buffer);

}  // namespace millrace::decode::detail

// PNG via libpng: 8-bit pixels from every colour type and depth.
//
// Source: the PNG specification (ISO/IEC 15948).
#pragma once

#include <cstddef>
#include <span>

#include "decode/codec.h"

namespace millrace::decode::detail {

/// What reading the rows needs besides the header.
struct PngFacts {
  bool interlaced = false;
};

/// Walks the chunks and checks that no claimed length exceeds the data. Keeps PngFacts.
/// Throws: Corrupt, Truncated, Exhausted.
ImageHeader read_png_header(std::span<const std::byte> data, const HeaderOptions& options);

}  // namespace millrace::decode::detail

// Glyphs: printable ASCII as 5 x 7 bitmaps, for labels under pictures.
#pragma once

#include <array>
#include <cstdint>

namespace millrace::tools {

inline constexpr int kGlyphWidth = 5;
inline constexpr int kGlyphHeight = 7;

/// Rows from top to bottom; in each the leftmost pixel is bit 4.
using Glyph = std::array<std::uint8_t, kGlyphHeight>;

/// Anything but printable ASCII becomes a question mark.
const Glyph& glyph_of(char character);

}  // namespace millrace::tools

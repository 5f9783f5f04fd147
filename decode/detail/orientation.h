// Exif orientation: found in a JPEG's APP1 segment, and applied to pixels.
//
// Source: CIPA DC-008 (Exif 2.32) 4.6.2 and tag 0x0112.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decode/detail/pixels.h"

namespace millrace::decode::detail {

/// 1 to 8; nullopt if the segment is not Exif or has no orientation.
std::optional<int> exif_orientation(std::span<const std::uint8_t> app1);

/// Whether height and width are swapped.
inline bool swaps_axes(int orientation) { return orientation >= 5; }

/// Rotates a whole picture upright, into `buffer`.
PixelView orient(const PixelView& view, int orientation, std::vector<std::uint8_t>& buffer);

}  // namespace millrace::decode::detail

// A part of a JPEG with restart markers, as a smaller JPEG that needs nothing outside of it.
//
// The blocks between two restart markers, a segment, are coded without reference to others. A
// window of the picture is therefore a file of the same headers, another size, and the window's
// segments with their markers numbered anew: libjpeg decodes nothing above and beside the window.
//
// Source: ITU-T T.81 (JPEG) B.2.1, E.1.4, E.2.4. Threads: the functions may be called from many
// threads at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "decode/codec.h"

namespace millrace::decode::detail {

/// Where a JPEG's segments begin and how they cover the picture; kept in its ImageHeader.
struct RestartLayout {
  std::uint32_t size_at = 0;   ///< bytes to the height in the frame header
  std::uint32_t scan_at = 0;   ///< bytes to the first segment
  std::uint16_t interval = 0;  ///< MCUs per segment; 0: the file has no segments to choose from
  std::uint8_t components = 0;
  std::uint8_t block_rows = 1;  ///< rows of blocks that libjpeg decodes together, of one component
  std::uint8_t max_horizontal = 1;  ///< sampling factors of an MCU, which has 8 pixels per factor
  std::uint8_t max_vertical = 1;
};

/// What is left of a segment when its blocks are decoded is damage, which libjpeg counts, but
/// reports only where it must search for the next marker: perhaps not in the window. So many bytes
/// of nothing before the last marker of the window make it search: it must report exactly these.
inline constexpr int kFillerBytes = 16;

/// The segments that a box needs. A band is the fewest rows of MCUs that begin and end with a
/// segment: one row if the interval divides it.
struct RestartWindow {
  Box box = {};  ///< what they cover, in pixels before scaling
  std::int64_t first_band = 0;
  std::int64_t end_band = 0;
  std::int64_t first_in_band = 0;
  std::int64_t end_in_band = 0;
  std::int64_t band_segments = 0;
  std::int64_t num_segments = 0;  ///< of the whole picture
  /// The file has kFillerBytes before its last marker.
  bool has_filler = false;
  /// The file has one more row of pixels, without data, for a marker behind the last segment. Else
  /// the marker is the one before it.
  bool has_end_row = false;

  int file_height() const { return box.height + (has_end_row ? 1 : 0); }
  /// Segments.
  std::int64_t size() const {
    if (end_in_band - first_in_band < band_segments)
      return (end_band - first_band) * (end_in_band - first_in_band);
    return std::min(end_band * band_segments, num_segments) - first_band * band_segments;
  }
};

/// The window for `request`, with the neighbours that smooth upsampling looks at. Nullopt if the
/// file has no segments to choose from, or nearly all of them would be needed anyway.
std::optional<RestartWindow> choose_window(const ImageHeader& header, const PixelRequest& request);

/// Makes the window's file in `out`. False if the scan is not exactly the segments and markers that
/// the headers announce, for then nobody knows where a segment belongs; and if the headers are not
/// segment behind segment with Huffman tables as encoders write them.
bool copy_window(std::span<const std::byte> data, const ImageHeader& header,
                 const RestartWindow& window, std::vector<std::uint8_t>& out);

}  // namespace millrace::decode::detail

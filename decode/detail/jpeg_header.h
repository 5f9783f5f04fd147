// JpegHeader: what a JPEG file says of itself, read without decoding anything.
//
// Source: ITU-T T.81 (JPEG) B.1; the Exif orientation from CIPA DC-008.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "decode/limits.h"

namespace millrace::decode::detail {

struct JpegHeader {
  int width = 0;
  int height = 0;
  int components = 0;
  bool progressive = false;
  /// Exif's: 1 is upright, up to 8.
  int orientation = 1;
  /// What is odd about the headers, though nothing is lost; empty for nearly all files.
  std::string_view untidy = {};
};

/// Walks the markers. Counting scans costs one pass over the bytes, and only where a file may have
/// several. Throws: Corrupt, Truncated (also when the end marker is missing, unless
/// `tolerate_truncated`), Unsupported (12-bit, lossless, hierarchical), Exhausted (too many pixels
/// or scans).
JpegHeader read_jpeg_header(std::span<const std::byte> data, const Limits& limits,
                            bool tolerate_truncated);

}  // namespace millrace::decode::detail

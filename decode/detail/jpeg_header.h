// Reads the header of a JPEG file without decoding anything.
//
// Source: ITU-T T.81 (JPEG) B.1; the Exif orientation from CIPA DC-008.
#pragma once

#include <cstddef>
#include <span>

#include "decode/codec.h"

namespace millrace::decode::detail {

/// Walks the markers. Counting scans takes a pass over all bytes, and is done only if there may be
/// several. Throws: Corrupt, Truncated (also when the end marker is missing, unless
/// `tolerate_truncated`), Unsupported (12-bit, lossless, hierarchical), Exhausted (too many pixels
/// or scans).
ImageHeader read_jpeg_header(std::span<const std::byte> data, const HeaderOptions& options);

}  // namespace millrace::decode::detail

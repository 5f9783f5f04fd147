// JPEGs that our own encoder does not write: odd sampling, progressive, CMYK, restarts.
#pragma once

#include <array>

#include "decode/image.h"

namespace millrace::testing {

struct JpegShape {
  /// Horizontal and vertical sampling factors of the first component.
  std::array<int, 2> sampling = {2, 2};
  /// Those of the others.
  std::array<int, 2> chroma = {1, 1};
  bool progressive = false;
  bool arithmetic = false;
  /// CMYK as Adobe writes it: inverted. Black is 0.
  bool inks = false;
  /// The inks are stored as YCCK.
  bool inks_as_ycck = false;
  int restart_rows = 0;
  /// MCUs between two restart markers; 0: `restart_rows` says.
  unsigned restart_interval = 0;
  int quality = 90;
};

/// `image` has 1 or 3 channels.
io::Bytes build_jpeg(const decode::Image& image, const JpegShape& shape);

/// A progressive JPEG whose last scan is repeated `extra` times.
io::Bytes jpeg_with_scans(const io::Bytes& progressive, int extra);

/// The file truncated to `size` bytes.
io::Bytes cut(const io::Bytes& file, std::size_t size);

/// The file with the byte at `offset` xored with `mask`.
io::Bytes flip(const io::Bytes& file, std::size_t offset, unsigned mask);

}  // namespace millrace::testing

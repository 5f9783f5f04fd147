// Image: decoded 8-bit pixels as a value, for tools that inspect pictures rather than train on
// them.
//
// Training uses ImageDecoder, which writes directly into a batch; this is the whole picture as
// stored.
//
//   Image image = decode_image(bytes, {.channels = 3});
//   image.row(0)[3 * x + 1];   // green of pixel x in the first row
//
// Threads: a value type; decode_image may be called from many threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "decode/limits.h"
#include "io/bytes.h"

namespace millrace::decode {

class CodecTable;

/// A copy shares the pixels.
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;  ///< 1 grey, 3 RGB, 4 RGB and alpha
  io::Bytes pixels;  ///< (H, W, C), densely packed
  /// A harmless oddity of the file that it came from: "JPEG: Corrupt JPEG data: 2 extraneous bytes
  /// before marker 0xd9". With `tolerate_truncated` it may also be tolerated damage. Empty for
  /// nearly all files.
  std::string untidy = {};

  /// Row `y`: width * channels values. Requires: 0 <= y < height.
  std::span<const std::uint8_t> row(int y) const;
};

struct DecodeImageOptions {
  /// 1, 3 or 4; 0: as stored (CMYK becomes RGB, 16 bits become 8, palettes become colours).
  int channels = 0;
  /// Rotates a JPEG by its Exif orientation.
  bool apply_orientation = false;
  Limits limits = {};
  /// Decodes what is left of a damaged or truncated JPEG instead of throwing.
  bool tolerate_truncated = false;
  /// The known formats. Null: standard_codecs().
  std::shared_ptr<const CodecTable> codecs = nullptr;
};

struct ImageSize {
  int height = 0;
  int width = 0;

  bool operator==(const ImageSize&) const = default;
};

/// The size that the header claims, without decoding. Throws: as decode_image.
ImageSize image_size(const io::Bytes& encoded, const DecodeImageOptions& options = {});

/// Decodes any of the known formats, recognised by content. Throws: Corrupt, Truncated,
/// Unsupported (naming what the content looks like), Exhausted (a limit);
/// std::bad_alloc.
Image decode_image(const io::Bytes& encoded, const DecodeImageOptions& options = {});

}  // namespace millrace::decode

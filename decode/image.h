// Image: decoded 8-bit pixels as a value, for tools that look at pictures rather than train on
// them.
//
// Training uses ImageDecoder, which writes straight into a batch; this is the whole picture as
// stored.
//
//   Image image = decode_image(bytes, {.channels = 3});
//   image.row(0)[3 * x + 1];   // green of pixel x in the first row
//
// Threads: as a value; decode_image may be called from many threads at once.
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
  /// What is odd about the file that it came from, though every pixel is as it should be: "JPEG:
  /// Corrupt JPEG data: 2 extraneous bytes before marker 0xd9". With `tolerate_truncated` what is
  /// damaged, too. Empty for nearly all files.
  std::string untidy = {};

  /// Row `y`: width * channels values. Requires: 0 <= y < height.
  std::span<const std::uint8_t> row(int y) const;
};

struct DecodeImageOptions {
  /// 1, 3 or 4; 0 as stored (CMYK becomes RGB, 16 bits become 8, a palette its colours).
  int channels = 0;
  /// Turns a JPEG as its Exif orientation says.
  bool apply_orientation = false;
  Limits limits = {};
  /// Decodes what there is of a damaged or cut JPEG instead of throwing.
  bool tolerate_truncated = false;
  /// The formats that are known. Null: standard_codecs().
  std::shared_ptr<const CodecTable> codecs = nullptr;
};

struct ImageSize {
  int height = 0;
  int width = 0;

  bool operator==(const ImageSize&) const = default;
};

/// The size that the header claims, nothing decoded. Throws: as decode_image.
ImageSize image_size(const io::Bytes& encoded, const DecodeImageOptions& options = {});

/// Decodes whichever of the known formats the content is.
/// Throws: Corrupt, Truncated, Unsupported (names what the content looks like), Exhausted (a
/// limit).
Image decode_image(const io::Bytes& encoded, const DecodeImageOptions& options = {});

}  // namespace millrace::decode

// ImageSource: one encoded image of any known format; its header is read first, then parts of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decode/codec.h"

namespace millrace::decode::detail {

struct SourceOptions {
  HeaderOptions header = {};
  bool apply_orientation = false;
  /// Borrowed.
  const CodecTable* codecs = standard_codecs().get();
};

/// Scratch for decoding, reused from image to image. `codec.untidy` is of the last read: see
/// Image::untidy.
struct SourceWorkspace {
  CodecScratch codec;
  std::vector<std::uint8_t> converted;
  std::vector<std::uint8_t> oriented;
  std::vector<std::uint8_t> classes;
  std::vector<std::uint8_t> kept;  ///< rows of a picture that a file keeps
};

class ImageSource {
 public:
  /// Reads the header only. Throws: Corrupt, Truncated, Unsupported, Exhausted.
  ImageSource(std::span<const std::byte> data, const SourceOptions& options);

  int width() const { return width_; }
  int height() const { return height_; }
  const ImageHeader& header() const { return header_; }

  /// Pixels that cover at least `box` of the picture divided by `scale` (1; also 2, 4 or 8 if the
  /// header is scalable), with exactly `channels` values each. Lifetime: until the workspace is
  /// used again.
  PixelView read(const Box& box, int scale, int channels, SourceWorkspace& workspace) const;
  /// Numbers that cover at least `box`, with their bytes as channels. Requires: header().numbers.
  PixelView read_numbers(const Box& box, SourceWorkspace& workspace) const;

 private:
  PixelView read_stored(const Box& box, int scale, int channels, CodecScratch& scratch) const;
  PixelView read_channels(const Box& box, int scale, int channels,
                          SourceWorkspace& workspace) const;

  std::span<const std::byte> data_;
  bool tolerate_truncated_;
  const Codec& codec_;
  ImageHeader header_;
  int orientation_ = 1;
  int width_ = 0;   ///< as turned
  int height_ = 0;  ///< as turned
};

}  // namespace millrace::decode::detail

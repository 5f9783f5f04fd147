// ImageSource: one encoded image of whichever format, opened for its size, then read in part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "decode/detail/jpeg_reader.h"
#include "decode/detail/pixels.h"
#include "decode/detail/png_reader.h"
#include "decode/detail/pnm.h"
#include "decode/limits.h"

namespace millrace::decode::detail {

struct SourceOptions {
  Limits limits = {};
  bool tolerate_truncated = false;
  bool apply_orientation = false;
  Numbers numbers = Numbers::kNone;
};

/// Scratch for decoding, kept from image to image.
struct CodecWorkspace {
  std::unique_ptr<JpegReader> jpeg;  ///< made at the first JPEG
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t> converted;
  std::vector<std::uint8_t> oriented;
  std::vector<std::uint8_t> classes;
  std::string untidy;  ///< of the last read: see Image::untidy
};

class ImageSource {
 public:
  /// Reads the header only. Throws: Corrupt, Truncated, Unsupported, Exhausted.
  ImageSource(std::span<const std::byte> data, const SourceOptions& options);

  int width() const { return width_; }
  int height() const { return height_; }
  /// As stored: 1, 3 or 4.
  int channels() const { return channels_; }
  /// Whether read() may be asked for scales other than 1.
  bool scalable() const { return std::holds_alternative<JpegHeader>(header_); }
  /// Whether the pixels are the numbers that were asked for with SourceOptions::numbers.
  bool holds_numbers() const;

  /// Pixels that hold at least `box` of the picture divided by `scale` (1, 2, 4 or 8), with exactly
  /// `channels` values each. The view lives until the workspace is used again.
  PixelView read(const Box& box, int scale, int channels, CodecWorkspace& workspace) const;
  /// At least `box` of the numbers, their bytes as channels. Requires: holds_numbers().
  PixelView read_numbers(const Box& box, CodecWorkspace& workspace) const;

 private:
  PixelView read_jpeg(const JpegHeader& header, const Box& box, int scale, int channels,
                      CodecWorkspace& workspace) const;
  PixelView read_stored(const Box& box, int scale, int channels, CodecWorkspace& workspace) const;
  PixelView read_channels(const Box& box, int scale, int channels, CodecWorkspace& workspace) const;

  std::span<const std::byte> data_;
  SourceOptions options_;
  std::variant<JpegHeader, PngHeader, PnmHeader> header_;
  int width_ = 0;   ///< as turned
  int height_ = 0;  ///< as turned
  int channels_ = 0;
  int orientation_ = 1;
};

}  // namespace millrace::decode::detail

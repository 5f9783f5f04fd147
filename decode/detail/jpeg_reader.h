// JpegReader: a wrapper of libjpeg-turbo that reads a box of a JPEG at full or reduced size.
//
// One reader serves many images in turn, so that libjpeg's tables are set up once. Threads: one at
// a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "decode/codec.h"

namespace millrace::decode::detail {

class JpegReader {
 public:
  JpegReader();
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// Decodes at least the box into `buffer`, with the same values as a full decode. Requires:
  /// `header` is that of `data`. Throws: Corrupt, Truncated, Unsupported; std::bad_alloc.
  PixelView read(std::span<const std::byte> data, const ImageHeader& header,
                 const PixelRequest& request, std::vector<std::uint8_t>& buffer);
  /// Whether the last read() decoded only the box's restart segments (jpeg_window.h).
  bool read_segments() const;
  /// libjpeg's first tolerated warning in the last read(); empty if there was none.
  std::string_view untidy() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::decode::detail

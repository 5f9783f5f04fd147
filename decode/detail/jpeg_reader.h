// JpegReader: libjpeg-turbo behind one wrapper; reads a box of a JPEG at full size or less.
//
// One reader serves many images, one after the other, so that libjpeg's own tables are set up once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "decode/detail/jpeg_header.h"
#include "decode/detail/pixels.h"

namespace millrace::decode::detail {

class JpegReader {
 public:
  struct Request {
    /// What is wanted, in pixels of the scaled picture.
    Box box = {};
    /// 1, 2, 4 or 8: the picture's sides are divided by it, rounded up.
    int scale = 1;
    /// 1 or 3.
    int channels = 3;
    bool tolerate_truncated = false;
  };

  JpegReader();
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  /// Decodes into `buffer` and gives at least the box; its values are those of a full decode.
  /// Requires: `header` is that of `data`. Throws: Corrupt, Truncated, Unsupported.
  PixelView read(std::span<const std::byte> data, const JpegHeader& header, const Request& request,
                 std::vector<std::uint8_t>& buffer);
  /// libjpeg's first warning in the last read() that did not end it; empty when there was none.
  std::string_view untidy() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::decode::detail

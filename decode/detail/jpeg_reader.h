// JpegReader: libjpeg-turbo behind one wrapper; reads a box of a JPEG at full size or less.
//
// One reader serves many images, one after the other, so that libjpeg's own tables are set up once.
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

  /// Decodes into `buffer` and gives at least the box; its values are those of a full decode.
  /// Requires: `header` is that of `data`. Throws: Corrupt, Truncated, Unsupported.
  PixelView read(std::span<const std::byte> data, const ImageHeader& header,
                 const PixelRequest& request, std::vector<std::uint8_t>& buffer);
  /// libjpeg's first warning in the last read() that did not end it; empty when there was none.
  std::string_view untidy() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::decode::detail

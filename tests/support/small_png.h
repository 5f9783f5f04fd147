// small_png: a picture of a few pixels, another one for each value. For tests that link decode.
#pragma once

#include <string>

#include "decode/encode.h"
#include "decode/extent.h"
#include "decode/image.h"
#include "io/bytes.h"

namespace millrace::testing {

/// A PNG file of 3 channels.
inline std::string small_png(decode::Extent size, int value) {
  std::string pixels;
  for (int i = 0; i < size.height * size.width * 3; ++i)
    pixels += static_cast<char>((value * 7 + i * i) & 0xFF);
  const decode::Image image{.height = size.height,
                            .width = size.width,
                            .channels = 3,
                            .pixels = io::Bytes::copy_of(pixels)};
  return std::string(decode::encode_png(image).text());
}

}  // namespace millrace::testing

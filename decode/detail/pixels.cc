#include "decode/detail/pixels.h"

#include <cstring>

namespace millrace::decode::detail {
namespace {

void to_grey(const std::uint8_t* in, int in_channels, std::uint8_t* out, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, in += in_channels) out[i] = luma(in);
}

void grey_to_colour(const std::uint8_t* in, std::uint8_t* out, int channels, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, out += channels) {
    out[0] = out[1] = out[2] = in[i];
    if (channels == 4) out[3] = 255;
  }
}

void colour_to_colour(const std::uint8_t* in, int in_channels, std::uint8_t* out, int out_channels,
                      std::size_t count) {
  for (std::size_t i = 0; i < count; ++i, in += in_channels, out += out_channels) {
    std::memcpy(out, in, 3);
    if (out_channels == 4) out[3] = 255;
  }
}

}  // namespace

void convert_channels(const std::uint8_t* in, int in_channels, std::uint8_t* out, int out_channels,
                      std::size_t count) {
  if (in_channels == out_channels) {
    std::memcpy(out, in, count * static_cast<std::size_t>(in_channels));
  } else if (out_channels == 1) {
    to_grey(in, in_channels, out, count);
  } else if (in_channels == 1) {
    grey_to_colour(in, out, out_channels, count);
  } else {
    colour_to_colour(in, in_channels, out, out_channels, count);
  }
}

}  // namespace millrace::decode::detail

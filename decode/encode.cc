#include "decode/encode.h"

#include <fmt/format.h>

#include <cstring>

#include "io/base/error.h"

namespace millrace::decode {

io::Bytes encode_pnm(const Image& image) {
  if (image.channels != 1 && image.channels != 3) {
    throw Error(ErrorCode::kInvalidArgument, "PNM holds 1 or 3 channels");
  }
  const std::string header =
      fmt::format("P{}\n{} {}\n255\n", image.channels == 3 ? 6 : 5, image.width, image.height);
  std::vector<std::byte> out(header.size() + image.pixels.size());
  std::memcpy(out.data(), header.data(), header.size());
  std::memcpy(out.data() + header.size(), image.pixels.data(), image.pixels.size());
  return io::Bytes::take(std::move(out));
}

}  // namespace millrace::decode

#include "tools/create/image_encoding.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "decode/codec.h"
#include "decode/encode.h"
#include "decode/image_decoder.h"
#include "decode/transforms/resize.h"
#include "io/base/error.h"
#include "tools/parse.h"

namespace millrace::tools {
namespace {

constexpr std::int64_t kMaxLongerSide = 65'500;  // JPEG's limit

/// The fused decoder reads only files, so the picture is encoded again: uncompressed, unless it has
/// an alpha channel.
decode::Image resize(const decode::Image& image, const decode::ImageSize& to) {
  const decode::ImageDecoder decoder({.transforms = {decode::Resize{{to.height, to.width}}},
                                      .channels = image.channels,
                                      .dtype = decode::DType::kUInt8});
  std::vector<std::byte> pixels(decoder.output().num_bytes());
  decoder.decode(image.channels == 4 ? decode::encode_png(image) : decode::encode_pnm(image), {},
                 pixels);
  return {.height = to.height,
          .width = to.width,
          .channels = image.channels,
          .pixels = io::Bytes::take(std::move(pixels))};
}

}  // namespace

NewSize parse_new_size(const std::string& text) {
  const decode::Extent size = parse_extent("--resize", text);
  if (text.find('x') == std::string::npos) return {.shorter = size.height};
  return {.exact = {.height = size.height, .width = size.width}};
}

decode::Image resized(const decode::Image& image, const NewSize& size) {
  if (!size.wanted()) return image;
  if (size.shorter == 0) return resize(image, size.exact);
  const auto longer = [&](int side, int other) {
    const std::int64_t pixels = static_cast<std::int64_t>(size.shorter) * side / other;
    if (pixels > kMaxLongerSide)
      throw Error(ErrorCode::kExhausted,
                  "the resized image would be " + std::to_string(pixels) + " pixels long");
    return static_cast<int>(pixels);
  };
  if (image.height < image.width)
    return resize(image, {.height = size.shorter, .width = longer(image.width, image.height)});
  return resize(image, {.height = longer(image.height, image.width), .width = size.shorter});
}

wds::Field encode_field(const decode::Image& image, const ImageEncoding& encoding) {
  decode::EncodedImage file =
      decode::standard_codecs()->encode(image, encoding.format, {.quality = encoding.quality});
  return {.suffix = std::move(file.suffix), .data = std::move(file.data)};
}

}  // namespace millrace::tools

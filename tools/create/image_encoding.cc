#include "tools/create/image_encoding.h"

#include <utility>

#include "decode/codec.h"
#include "decode/recode.h"
#include "tools/parse.h"

namespace millrace::tools {
NewSize parse_new_size(const std::string& text) {
  const decode::Extent size = parse_extent("--resize", text);
  if (text.find('x') == std::string::npos) return {.shorter = size.height};
  return {.exact = {.height = size.height, .width = size.width}};
}

decode::Image resized(const decode::Image& image, const NewSize& size) {
  if (!size.wanted()) return image;
  const decode::ImageSize before{.height = image.height, .width = image.width};
  return decode::resize_image(
      image, size.shorter == 0 ? size.exact : decode::size_with_shorter(before, size.shorter));
}

wds::Field encode_field(const decode::Image& image, const ImageEncoding& encoding) {
  decode::EncodedImage file =
      decode::standard_codecs()->encode(image, encoding.format, {.quality = encoding.quality});
  return {.suffix = std::move(file.suffix), .data = std::move(file.data)};
}

}  // namespace millrace::tools

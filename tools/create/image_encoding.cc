#include "tools/create/image_encoding.h"

#include "decode/encode.h"
#include "io/base/error.h"

namespace millrace::tools {

wds::Field encode_field(const decode::Image& image, const ImageEncoding& encoding) {
  const std::string& format = encoding.format;
  if (format == "png") return {.suffix = format, .data = decode::encode_png(image)};
  if (format == "jpg")
    return {.suffix = format, .data = decode::encode_jpeg(image, {.quality = encoding.quality})};
  if (format == "ppm")
    return {.suffix = image.channels == 1 ? "pgm" : "ppm", .data = decode::encode_pnm(image)};
  throw Error(ErrorCode::kInvalidArgument, "no image format '" + format + "': jpg, png or ppm");
}

}  // namespace millrace::tools

// ImageEncoding: the format in which made or re-encoded images go into shards.
#pragma once

#include <string>

#include "decode/image.h"
#include "wds/sample.h"

namespace millrace::tools {

struct ImageEncoding {
  /// "jpg", "png" or "ppm" (grey images then become "pgm").
  std::string format = "png";
  /// JPEG's, 1 to 100.
  int quality = 90;
};

/// `image` as a field whose suffix is the format's.
wds::Field encode_field(const decode::Image& image, const ImageEncoding& encoding);

}  // namespace millrace::tools

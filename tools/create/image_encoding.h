// The size and format in which generated or re-encoded images are written to shards.
//
// Threads: all functions may be called from many threads at once.
#pragma once

#include <string>

#include "decode/image.h"
#include "wds/sample.h"

namespace millrace::tools {

/// The new size of an image, in pixels; all 0: unchanged.
struct NewSize {
  /// Length of the shorter side; the other one is in proportion.
  int shorter = 0;
  /// Or exactly this size.
  decode::ImageSize exact = {};

  bool wanted() const { return shorter > 0 || exact.height > 0; }
};

/// "256": the shorter side; "224x320": height and width. Throws: InvalidArgument.
NewSize parse_new_size(const std::string& text);

/// `image` resized, antialiased (torchvision's Resize).
decode::Image resized(const decode::Image& image, const NewSize& size);

struct ImageEncoding {
  /// A suffix that decode::standard_codecs() can write (grey images as "ppm" become "pgm").
  std::string format = "png";
  /// JPEG quality, 1 to 100.
  int quality = 90;
};

/// `image` encoded as a field with the format's suffix.
wds::Field encode_field(const decode::Image& image, const ImageEncoding& encoding);

}  // namespace millrace::tools

// How made, read or re-encoded images go into shards: their size and format.
//
// Threads: all functions may be called from many threads at once.
#pragma once

#include <string>

#include "decode/image.h"
#include "wds/sample.h"

namespace millrace::tools {

/// The size of an image to come, in pixels; all 0: as it is.
struct NewSize {
  /// The shorter side's, the other in proportion.
  int shorter = 0;
  /// Or exactly this.
  decode::ImageSize exact = {};

  bool wanted() const { return shorter > 0 || exact.height > 0; }
};

/// "256": the shorter side; "224x320": height and width. Throws: InvalidArgument.
NewSize parse_new_size(const std::string& text);

/// `image` in its new size, antialiased (torchvision's Resize).
decode::Image resized(const decode::Image& image, const NewSize& size);

struct ImageEncoding {
  /// A suffix that decode::standard_codecs() can write (grey images as "ppm" become "pgm").
  std::string format = "png";
  /// JPEG's, 1 to 100.
  int quality = 90;
};

/// `image` as a field whose suffix is the format's.
wds::Field encode_field(const decode::Image& image, const ImageEncoding& encoding);

}  // namespace millrace::tools

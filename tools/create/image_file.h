// Image files as fields: their bytes as they are, or decoded, resized and encoded anew.
//
//   wds::Field field = image_field("photos/cat/1.JPG", {.format = "png", .size = {.shorter =
//   256}});
//
// Threads: all functions may be called from many threads at once.
#pragma once

#include <string>

#include "io/base/hash.h"
#include "tools/create/image_encoding.h"
#include "wds/sample.h"

namespace millrace::tools {

/// What an image becomes; by default it stays as it is.
struct Recoding {
  /// As ImageEncoding::format; empty: the file's own, by its suffix.
  std::string format = {};
  /// JPEG's, 1 to 100.
  int quality = 90;
  NewSize size = {};

  /// Whether bytes pass unchanged.
  bool keeps() const { return format.empty() && !size.wanted(); }
};

/// What follows the last dot of the path's name, in lower case; empty when there is none.
std::string suffix_of(const std::string& path);

/// The file at `path` as a field; its suffix is the file's, or the new format's. Throws: NotFound,
/// Io, Exhausted (over 1 GiB), and what decoding throws, with the path.
wds::Field image_field(const std::string& path, const Recoding& recoding);

/// Feeds path, size and time of last change. Throws: NotFound, Io.
void identify_file(const std::string& path, Sha256& into);

}  // namespace millrace::tools

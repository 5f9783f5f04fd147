// Image files as fields: their bytes unchanged, or decoded, resized and re-encoded.
//
//   wds::Field field = image_field(
//       "photos/cat/1.JPG", {.format = "png", .size = {.shorter = 256}});
//
// Threads: all functions may be called from many threads at once.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tools/create/image_encoding.h"
#include "wds/sample.h"

namespace millrace::tools {

/// How an image is re-encoded; by default it is unchanged.
struct Recoding {
  /// As ImageEncoding::format; empty: the file's format, by its suffix.
  std::string format = {};
  /// JPEG quality, 1 to 100.
  int quality = 90;
  NewSize size = {};
  /// Turns it by its Exif orientation, which the new file does not have; false where other fields
  /// (boxes, masks) are of its pixels as they are stored.
  bool upright = true;

  /// Whether bytes pass unchanged.
  bool keeps() const { return format.empty() && !size.wanted(); }
};

/// The part after the last dot of the file name, in lower case; empty if there is none.
std::string suffix_of(std::string_view path);

/// The file at `path` as a field; its suffix is the file's, or the new format's. `check` is shown
/// the file as it is stored. Throws: NotFound, Io, Exhausted (over 1 GiB), Corrupt for an empty
/// file, and as decoding and `check`, with the path.
wds::Field image_field(const std::string& path, const Recoding& recoding,
                       const std::function<void(const io::Bytes& file)>& check = {});

/// The picture in `data` re-encoded as a field. Throws: as decoding and encoding.
wds::Field recoded_field(const io::Bytes& data, const std::string& suffix,
                         const Recoding& recoding);

}  // namespace millrace::tools

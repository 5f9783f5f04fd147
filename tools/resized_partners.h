// What belongs to a picture (a mask, boxes) must fit it when the picture gets another size.
//
//   check_partners(sample.key, {{.suffix = "jpg", .before = photo, .after = small},
//                               {.suffix = "mask.png", .before = mask, .after = mask}});
//
// Threads: from any.
#pragma once

#include <span>
#include <string>

#include "io/bytes.h"

namespace millrace::tools {

/// A field before and after.
struct ResizedField {
  std::string suffix;
  io::Bytes before;
  io::Bytes after;
};

/// Looks only at samples of which a picture got another size. Throws: InvalidArgument, with the
/// key, if another picture or array had its size before and has not now; or as the next.
void check_partners(const std::string& key, std::span<const ResizedField> fields);

/// Throws: InvalidArgument if `json` has boxes ("boxes") and does not say of which size of picture
/// ("width", "height"), by which readers scale them.
void refuse_boxes_without_size(const io::Bytes& json);

}  // namespace millrace::tools

// Outlines of boxes on a picture, in their classes' colours.
#pragma once

#include <span>

#include "decode/boxes.h"
#include "decode/image.h"

namespace millrace::tools {

/// `image` in colours, with a frame along the inner side of each box; what is outside of the image
/// is left out. Boxes without a class are white.
decode::Image outlined(const decode::Image& image, std::span<const decode::ObjectBox> boxes);

}  // namespace millrace::tools

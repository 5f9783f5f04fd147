// Masks and depth made visible to people.
#pragma once

#include "decode/image.h"

namespace millrace::tools {

/// Whether a grey image is stretched from black to white, or its values are classes if they may be.
enum class GreyIs { kMeasure, kClassesIfSmall };

/// With kClassesIfSmall a grey image with values up to 63 alone is taken for class numbers, a
/// colour each (0 is black). Colour images stay as they are.
decode::Image made_visible(const decode::Image& image, GreyIs grey);

}  // namespace millrace::tools

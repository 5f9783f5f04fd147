// Masks and depth made visible to people.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decode/class_mask.h"
#include "decode/image.h"
#include "tools/view/sheet.h"

namespace millrace::tools {

/// Whether a grey image is stretched from black to white, or its values are classes if they may be.
enum class GreyIs { kMeasure, kClassesIfSmall };

/// What stands for pixels of no class.
inline constexpr decode::RgbColour kIgnoredColour = {255, 255, 255};

/// A colour for a class that has none of its own: 0 is black, no other is dark.
decode::RgbColour class_colour(std::int64_t label);

/// With kClassesIfSmall a grey image with values up to 63 alone, or 255 for pixels of no class, is
/// taken for class numbers, a colour each. Colour images stay as they are.
decode::Image made_visible(const decode::Image& image, GreyIs grey);

/// A mask's numbers as classes, a colour each, or where there are more than 64 of them stretched
/// from black to white.
decode::Image visible_classes(const decode::ClassImage& mask);

/// Each class in its colour of `palette`, anything else in kIgnoredColour.
decode::Image painted_classes(const decode::ClassImage& mask,
                              std::span<const decode::RgbColour> palette);

/// The classes by their names, or numbers, and the colour of what is ignored.
std::vector<LegendEntry> class_legend(std::span<const decode::RgbColour> palette,
                                      const std::vector<std::string>& names);

}  // namespace millrace::tools

// Masks and depth rendered as pictures.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decode/class_mask.h"
#include "decode/image.h"
#include "tools/view/sheet.h"

namespace millrace::tools {

/// Whether a grey image is stretched from black to white, or shows classes if its values are small.
enum class GreyIs { kMeasure, kClassesIfSmall };

/// The colour of pixels without a class.
inline constexpr decode::RgbColour kIgnoredColour = {255, 255, 255};

/// A generated colour for a class: 0 is black, no other is dark.
decode::RgbColour class_colour(std::int64_t label);

/// With kClassesIfSmall a grey image whose values are all up to 63, or 255 for pixels without a
/// class, is treated as class numbers with one colour each. Colour images are unchanged.
decode::Image made_visible(const decode::Image& image, GreyIs grey);

/// A mask's numbers as classes with one colour each; if there are more than 64, stretched from
/// black to white.
decode::Image visible_classes(const decode::ClassImage& mask);

/// Each class in its colour of `palette`, anything else in kIgnoredColour.
decode::Image painted_classes(const decode::ClassImage& mask,
                              std::span<const decode::RgbColour> palette);

/// The classes by name, or number, and the colour of ignored pixels.
std::vector<LegendEntry> class_legend(std::span<const decode::RgbColour> palette,
                                      const std::vector<std::string>& names);

}  // namespace millrace::tools

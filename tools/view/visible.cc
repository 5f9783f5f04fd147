#include "tools/view/visible.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace millrace::tools {
namespace {

constexpr std::uint8_t kMostClasses = 63;

// Hues that lie a golden angle apart are far from each other however many there are.
std::array<std::uint8_t, 3> class_colour(std::uint8_t label) {
  if (label == 0) return {0, 0, 0};
  constexpr double kGolden = 0.381966;
  std::array<std::uint8_t, 3> colour{};
  for (std::size_t c = 0; c < 3; ++c) {
    const double turn = label * kGolden + static_cast<double>(c) / 3.0;
    const double wave = 0.5 + 0.5 * std::cos(2 * 3.14159265358979 * turn);
    colour[c] = static_cast<std::uint8_t>(55 + 200 * wave);
  }
  return colour;
}

}  // namespace

decode::Image made_visible(const decode::Image& image, GreyIs meaning) {
  if (image.channels != 1) return image;
  const auto values = image.pixels.span();
  std::vector<std::uint8_t> levels(values.size());
  std::transform(values.begin(), values.end(), levels.begin(),
                 [](std::byte value) { return std::to_integer<std::uint8_t>(value); });
  const auto [low, high] = std::minmax_element(levels.begin(), levels.end());
  const bool classes = meaning == GreyIs::kClassesIfSmall && *high <= kMostClasses;
  const int range = std::max(1, *high - *low);
  std::vector<std::byte> pixels;
  pixels.reserve(3 * levels.size());
  for (const std::uint8_t level : levels) {
    const auto grey = static_cast<std::uint8_t>((level - *low) * 255 / range);
    const auto colour =
        classes ? class_colour(level) : std::array<std::uint8_t, 3>{grey, grey, grey};
    for (const std::uint8_t value : colour) pixels.push_back(std::byte{value});
  }
  return {.height = image.height,
          .width = image.width,
          .channels = 3,
          .pixels = io::Bytes::take(std::move(pixels))};
}

}  // namespace millrace::tools

#include "tools/view/visible.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace millrace::tools {
namespace {

constexpr std::uint8_t kMostClasses = 63;

constexpr std::uint8_t kIgnored = 255;

bool are_classes(const std::vector<std::uint8_t>& levels) {
  return std::ranges::all_of(
      levels, [](std::uint8_t level) { return level <= kMostClasses || level == kIgnored; });
}

}  // namespace

// Hues a golden angle apart are well separated, however many there are.
decode::RgbColour class_colour(std::int64_t label) {
  if (label == 0) return {0, 0, 0};
  constexpr double kGolden = 0.381966;
  decode::RgbColour colour{};
  for (std::size_t c = 0; c < 3; ++c) {
    const double turn = static_cast<double>(label) * kGolden + static_cast<double>(c) / 3.0;
    const double wave = 0.5 + 0.5 * std::cos(2 * 3.14159265358979 * turn);
    colour[c] = static_cast<std::uint8_t>(55 + 200 * wave);
  }
  return colour;
}

decode::Image made_visible(const decode::Image& image, GreyIs meaning) {
  if (image.channels != 1) return image;
  const auto values = image.pixels.span();
  std::vector<std::uint8_t> levels(values.size());
  std::transform(values.begin(), values.end(), levels.begin(),
                 [](std::byte value) { return std::to_integer<std::uint8_t>(value); });
  const auto [low, high] = std::minmax_element(levels.begin(), levels.end());
  const bool classes = meaning == GreyIs::kClassesIfSmall && are_classes(levels);
  const int range = std::max(1, *high - *low);
  std::vector<std::byte> pixels;
  pixels.reserve(3 * levels.size());
  for (const std::uint8_t level : levels) {
    const auto grey = static_cast<std::uint8_t>((level - *low) * 255 / range);
    const auto colour = !classes            ? decode::RgbColour{grey, grey, grey}
                        : level == kIgnored ? kIgnoredColour
                                            : class_colour(level);
    for (const std::uint8_t value : colour) pixels.push_back(std::byte{value});
  }
  return {.height = image.height,
          .width = image.width,
          .channels = 3,
          .pixels = io::Bytes::take(std::move(pixels))};
}

decode::Image visible_classes(const decode::ClassImage& mask) {
  const std::set<std::int64_t> numbers(mask.labels.begin(), mask.labels.end());
  const std::int64_t high = std::max<std::int64_t>(1, *numbers.rbegin());
  std::map<std::int64_t, decode::RgbColour> colours;
  for (const std::int64_t number : numbers) {
    const auto grey = static_cast<std::uint8_t>(number * 255 / high);
    colours[number] = numbers.size() > kMostClasses + 1 ? decode::RgbColour{grey, grey, grey}
                      : number == kIgnored              ? kIgnoredColour
                                                        : class_colour(number);
  }
  std::vector<std::byte> pixels;
  pixels.reserve(3 * mask.labels.size());
  for (const std::int64_t label : mask.labels)
    for (const std::uint8_t value : colours.at(label)) pixels.push_back(std::byte{value});
  return {.height = mask.height,
          .width = mask.width,
          .channels = 3,
          .pixels = io::Bytes::take(std::move(pixels))};
}

decode::Image painted_classes(const decode::ClassImage& mask,
                              std::span<const decode::RgbColour> palette) {
  const auto classes = static_cast<std::int64_t>(palette.size());
  std::vector<std::byte> pixels;
  pixels.reserve(3 * mask.labels.size());
  for (const std::int64_t label : mask.labels) {
    const bool known = label >= 0 && label < classes;
    for (const std::uint8_t value :
         known ? palette[static_cast<std::size_t>(label)] : kIgnoredColour)
      pixels.push_back(std::byte{value});
  }
  return {.height = mask.height,
          .width = mask.width,
          .channels = 3,
          .pixels = io::Bytes::take(std::move(pixels))};
}

std::vector<LegendEntry> class_legend(std::span<const decode::RgbColour> palette,
                                      const std::vector<std::string>& names) {
  std::vector<LegendEntry> legend;
  for (std::size_t k = 0; k < palette.size(); ++k)
    legend.push_back(
        {.colour = palette[k], .name = k < names.size() ? names[k] : "class " + std::to_string(k)});
  legend.push_back({.colour = kIgnoredColour, .name = "ignored"});
  return legend;
}

}  // namespace millrace::tools

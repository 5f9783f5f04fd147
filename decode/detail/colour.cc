#include "decode/detail/colour.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "decode/detail/pixels.h"

namespace millrace::decode::detail {
namespace {

// Truncates, as PIL's blend does.
std::uint8_t blend(int base, int value, float factor) {
  const float mixed = static_cast<float>(base) + factor * static_cast<float>(value - base);
  return static_cast<std::uint8_t>(std::clamp(mixed, 0.0F, 255.0F));
}

void blend_all(std::span<std::uint8_t> pixels, int base, double factor) {
  std::array<std::uint8_t, 256> table;
  for (int value = 0; value < 256; ++value) {
    table[static_cast<std::size_t>(value)] = blend(base, value, static_cast<float>(factor));
  }
  for (std::uint8_t& value : pixels) value = table[value];
}

int mean_luma(std::span<const std::uint8_t> pixels, std::size_t channels) {
  const std::size_t count = std::max<std::size_t>(pixels.size() / channels, 1);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < pixels.size(); i += channels) {
    sum += channels == 1 ? pixels[i] : luma(&pixels[i]);
  }
  return static_cast<int>(std::floor(static_cast<double>(sum) / static_cast<double>(count) + 0.5));
}

/// Hue, saturation and value of 8 bits; the arithmetic decides which bits, so its types matter.
struct Hsv {
  std::uint8_t hue = 0;
  std::uint8_t saturation = 0;
  std::uint8_t value = 0;
};

Hsv hsv_of(const std::uint8_t* rgb) {
  const int most = std::max({rgb[0], rgb[1], rgb[2]});
  const int least = std::min({rgb[0], rgb[1], rgb[2]});
  if (most == least) return {.value = static_cast<std::uint8_t>(most)};
  const auto range = static_cast<float>(most - least);
  const auto below = [&](int channel) { return static_cast<float>(most - rgb[channel]) / range; };
  const auto [first, second, sector] = rgb[0] == most   ? std::array{2, 1, 0}
                                       : rgb[1] == most ? std::array{0, 2, 2}
                                                        : std::array{1, 0, 4};
  const auto sixths =
      static_cast<float>(static_cast<double>(sector) + static_cast<double>(below(first)) -
                         static_cast<double>(below(second)));
  double circle = static_cast<double>(sixths) / 6.0 + 1.0;
  if (circle >= 1.0) circle -= 1.0;
  const auto saturation = range / static_cast<float>(most);
  return {.hue = static_cast<std::uint8_t>(static_cast<double>(static_cast<float>(circle)) * 255.0),
          .saturation = static_cast<std::uint8_t>(static_cast<double>(saturation) * 255.0),
          .value = static_cast<std::uint8_t>(most)};
}

/// The place of each 8-bit hue: which sixth of the circle, and how far in it.
struct Sixth {
  int index = 0;
  float within = 0;
};

std::array<Sixth, 256> sixths_of_hues() {
  std::array<Sixth, 256> table;
  for (int hue = 0; hue < 256; ++hue) {
    const double place = hue * 6.0 / 255.0;
    table[static_cast<std::size_t>(hue)] = {static_cast<int>(place) % 6,
                                            static_cast<float>(place - std::floor(place))};
  }
  return table;
}

void put_rgb(const Hsv& hsv, const Sixth& place, std::uint8_t* rgb) {
  const float saturation = static_cast<float>(hsv.saturation / 255.0);
  const auto level = [&](double loss) {
    // Rounded: a call of lround() would take longer than all else here.
    const double twice = 2.0 * (static_cast<double>(hsv.value) * (1.0 - loss));
    return static_cast<std::uint8_t>(static_cast<int>(twice + 1.0) / 2);
  };
  const std::uint8_t v = hsv.value;
  const std::uint8_t p = level(static_cast<double>(saturation));
  const std::uint8_t q = level(static_cast<double>(saturation * place.within));
  const std::uint8_t t =
      level(static_cast<double>(saturation) * (1.0 - static_cast<double>(place.within)));
  const std::array<std::array<std::uint8_t, 3>, 6> sixths = {
      {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}}};
  std::ranges::copy(sixths[static_cast<std::size_t>(place.index)], rgb);
}

using Histogram = std::array<std::uint32_t, 256>;

std::array<Histogram, 3> histograms(std::span<const std::uint8_t> pixels, std::size_t channels) {
  std::array<Histogram, 3> counts = {};
  const std::size_t colours = std::min<std::size_t>(channels, 3);
  for (std::size_t i = 0; i < pixels.size(); i += channels)
    for (std::size_t c = 0; c < colours; ++c) ++counts[c][pixels[i + c]];
  return counts;
}

using Levels = std::array<std::uint8_t, 256>;

Levels same_levels() {
  Levels table;
  std::iota(table.begin(), table.end(), std::uint8_t{0});
  return table;
}

Levels stretched(const Histogram& counts) {
  const auto used = [](std::uint32_t count) { return count > 0; };
  const auto low = std::ranges::find_if(counts, used) - counts.begin();
  const auto high = 255 - (std::find_if(counts.rbegin(), counts.rend(), used) - counts.rbegin());
  Levels table = same_levels();
  if (high <= low) return table;
  const double scale = 255.0 / static_cast<double>(high - low);
  const double offset = static_cast<double>(-low) * scale;
  for (int level = 0; level < 256; ++level)
    table[static_cast<std::size_t>(level)] =
        static_cast<std::uint8_t>(std::clamp(level * scale + offset, 0.0, 255.0));
  return table;
}

Levels equalized(const Histogram& counts) {
  std::uint64_t sum = 0;
  std::uint64_t last = 0;
  for (const std::uint32_t count : counts) {
    sum += count;
    if (count > 0) last = count;
  }
  const std::uint64_t step = (sum - last) / 255;
  Levels table = same_levels();
  if (step == 0) return table;
  std::uint64_t before = step / 2;
  for (std::size_t level = 0; level < 256; ++level) {
    table[level] = static_cast<std::uint8_t>(std::min<std::uint64_t>(before / step, 255));
    before += counts[level];
  }
  return table;
}

/// Of each colour's histogram.
template <typename Made>
void apply_made(std::span<std::uint8_t> pixels, int channels, Made made) {
  const auto counts = histograms(pixels, static_cast<std::size_t>(channels));
  apply_tables(pixels, channels, {made(counts[0]), made(counts[1]), made(counts[2])});
}

}  // namespace

void change_brightness(std::span<std::uint8_t> pixels, double factor) {
  blend_all(pixels, 0, factor);
}

void change_contrast(std::span<std::uint8_t> pixels, int channels, double factor) {
  blend_all(pixels, mean_luma(pixels, static_cast<std::size_t>(channels)), factor);
}

void change_saturation(std::span<std::uint8_t> pixels, int channels, double factor) {
  if (channels == 1) return;
  for (std::size_t i = 0; i < pixels.size(); i += static_cast<std::size_t>(channels)) {
    const int grey = luma(&pixels[i]);
    for (std::uint8_t& value : pixels.subspan(i, 3)) {
      value = blend(grey, value, static_cast<float>(factor));
    }
  }
}

void change_hue(std::span<std::uint8_t> pixels, int channels, double turn) {
  if (channels == 1) return;
  static const std::array<Sixth, 256> sixths = sixths_of_hues();
  const int steps = static_cast<int>(turn * 255.0);
  for (std::size_t i = 0; i < pixels.size(); i += static_cast<std::size_t>(channels)) {
    const Hsv hsv = hsv_of(&pixels[i]);
    put_rgb(hsv, sixths[static_cast<std::size_t>((hsv.hue + steps) & 255)], &pixels[i]);
  }
}

void apply_tables(std::span<std::uint8_t> pixels, int channels, const ColourTables& tables) {
  const auto step = static_cast<std::size_t>(channels);
  const std::size_t colours = std::min<std::size_t>(step, 3);
  for (std::size_t i = 0; i < pixels.size(); i += step)
    for (std::size_t c = 0; c < colours; ++c) pixels[i + c] = tables[c][pixels[i + c]];
}

void stretch_contrast(std::span<std::uint8_t> pixels, int channels) {
  apply_made(pixels, channels, stretched);
}

void equalize(std::span<std::uint8_t> pixels, int channels) {
  apply_made(pixels, channels, equalized);
}

}  // namespace millrace::decode::detail

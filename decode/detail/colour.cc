#include "decode/detail/colour.h"

#include <algorithm>
#include <array>
#include <cmath>

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

double factor(double range, KeyedRng& rng) {
  const double low = std::max(0.0, 1.0 - range);
  return low + (1.0 + range - low) * static_cast<double>(rng.uniform());
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

void jitter(std::span<std::uint8_t> pixels, int channels, const ColorJitter& how,
            const SampleId& id) {
  KeyedRng rng = id.rng(Purpose::kColour);
  const std::array<double, 3> factors = {factor(how.brightness, rng), factor(how.contrast, rng),
                                         factor(how.saturation, rng)};
  std::array<int, 3> order = {0, 1, 2};
  shuffle(std::span<int>(order), rng);
  for (const int step : order) {
    if (step == 0) change_brightness(pixels, factors[0]);
    if (step == 1) change_contrast(pixels, channels, factors[1]);
    if (step == 2) change_saturation(pixels, channels, factors[2]);
  }
}

}  // namespace millrace::decode::detail

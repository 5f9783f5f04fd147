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

}  // namespace millrace::decode::detail

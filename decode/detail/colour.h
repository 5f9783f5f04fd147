// In-place colour changes of 8-bit pixels, (H, W, C), densely packed, with the arithmetic of PIL's
// ImageEnhance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace millrace::decode::detail {

/// Multiplies every value by `factor`.
void change_brightness(std::span<std::uint8_t> pixels, double factor);
/// Multiplies every value's distance from the picture's mean luma by `factor`.
void change_contrast(std::span<std::uint8_t> pixels, int channels, double factor);
/// Multiplies every pixel's distance from its own luma by `factor`. Does nothing to grey images.
void change_saturation(std::span<std::uint8_t> pixels, int channels, double factor);

}  // namespace millrace::decode::detail

// In-place colour changes of 8-bit pixels, (H, W, C), densely packed, with the arithmetic of PIL's
// ImageEnhance and ImageOps.
#pragma once

#include <array>
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
/// Turns every hue by this share of the circle, -1 to 1. Does nothing to grey images. Hue and
/// saturation have 8 bits between, as in PIL's HSV: a turn by 0 changes levels a little, too.
void change_hue(std::span<std::uint8_t> pixels, int channels, double turn);

/// A table for each colour, but not for alpha: PIL's ImageOps.
using ColourTables = std::array<std::array<std::uint8_t, 256>, 3>;
void apply_tables(std::span<std::uint8_t> pixels, int channels, const ColourTables& tables);
/// Stretches each colour's levels until they reach from 0 to 255.
void stretch_contrast(std::span<std::uint8_t> pixels, int channels);
/// Spreads each colour's levels until they are about equally frequent.
void equalize(std::span<std::uint8_t> pixels, int channels);

}  // namespace millrace::decode::detail

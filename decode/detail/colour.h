// Colour changes in place on 8-bit pixels, with PIL's ImageEnhance arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "decode/sample_id.h"
#include "decode/transforms.h"

namespace millrace::decode::detail {

/// Every value times `factor`.
void change_brightness(std::span<std::uint8_t> pixels, double factor);
/// Every value's distance from the picture's mean luma times `factor`.
void change_contrast(std::span<std::uint8_t> pixels, int channels, double factor);
/// Every pixel's distance from its own luma times `factor`. Does nothing to grey.
void change_saturation(std::span<std::uint8_t> pixels, int channels, double factor);

/// The three in the sample's random order, by its random factors. (H, W, C), densely packed.
void jitter(std::span<std::uint8_t> pixels, int channels, const ColorJitter& how,
            const SampleId& id);

}  // namespace millrace::decode::detail

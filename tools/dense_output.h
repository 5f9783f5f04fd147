// dense_output: a model's planes (logits, depths) as pictures of any size: the image's part of the
// model's canvas, resized bilinearly, as torch.nn.functional.interpolate does.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "decode/class_mask.h"
#include "decode/codec.h"
#include "decode/grey_values.h"
#include "decode/image.h"
#include "decode/transforms.h"

namespace millrace::tools {

/// Planes of one sample as output by a model. Shape: (K, H, W), where (H, W) is the canvas; the
/// picture is in its box `content` (ImageOptions::content()).
struct DensePlanes {
  std::span<const float> values;
  decode::Extent canvas;
  decode::Box content;
};

/// Each pixel's most likely class, the first one of equals; the logits are resized, not the
/// classes. Throws: Corrupt for a NaN in the picture's part.
decode::ClassImage classes_of(const DensePlanes& planes, const decode::Extent& to);

/// The first plane's values, (H, W). Throws: as classes_of().
std::vector<float> values_of(const DensePlanes& planes, const decode::Extent& to);

/// An 8-bit grey image of `level(value)` for each value.
template <typename Level>
decode::Image grey_image(std::span<const float> values, const decode::Extent& size,
                         const Level& level) {
  std::vector<std::byte> pixels;
  pixels.reserve(values.size());
  for (const float value : values) pixels.push_back(static_cast<std::byte>(level(value)));
  return {.height = size.height,
          .width = size.width,
          .channels = 1,
          .pixels = io::Bytes::take(std::move(pixels))};
}

/// Maps 0 to 1 to the levels 0 to 255; NaN is 0.
std::uint8_t depth_level(float share);
/// The level, 0 to 65535, that stands for a depth, and not for none.
std::int64_t stored_level(float depth, const decode::GreyValues& levels);

}  // namespace millrace::tools

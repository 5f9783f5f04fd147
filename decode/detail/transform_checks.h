// Checks of a list of transforms before any image is decoded.
#pragma once

#include <span>

#include "decode/image_decoder.h"

namespace millrace::decode::detail {

struct OutputSize {
  int height = 0;
  int width = 0;
};

/// Throws: InvalidArgument for a value out of range, for ColorJitter or Normalize before the last
/// crop or resize or given twice, for normalised integers, or for a wrong number of channels.
void check_transforms(const ImageDecoderOptions& options);

/// The size that every image has after `transforms`. Throws: InvalidArgument if it depends on the
/// image.
OutputSize output_size(std::span<const Transform> transforms);

/// The first transform of this type, or null.
template <typename T>
const T* find_transform(std::span<const Transform> transforms) {
  for (const Transform& transform : transforms) {
    if (const auto* found = std::get_if<T>(&transform)) return found;
  }
  return nullptr;
}

}  // namespace millrace::decode::detail

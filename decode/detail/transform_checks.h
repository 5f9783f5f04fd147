// What can be said of a list of transforms before any image is seen.
#pragma once

#include <span>

#include "decode/image_decoder.h"

namespace millrace::decode::detail {

struct OutputSize {
  int height = 0;
  int width = 0;
};

/// Throws: InvalidArgument for a value out of its range, for a normalisation that is not the last
/// but for flips, or given twice, or of uint8 values, or for another number of channels.
void check_transforms(const ImageDecoderOptions& options);

/// The size that every image has after `transforms`. Throws: InvalidArgument when it depends on the
/// image.
OutputSize output_size(std::span<const Transform> transforms);

/// The list's normalisation, or null.
const Normalize* find_normalize(std::span<const Transform> transforms);

}  // namespace millrace::decode::detail

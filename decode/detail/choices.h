// Computes a sample's Geometry from the transforms and the sample's id.
//
// Source: torchvision.transforms, for every formula and every rounding.
#pragma once

#include <span>

#include "decode/detail/geometry.h"
#include "decode/sample_id.h"
#include "decode/transforms.h"

namespace millrace::decode::detail {

/// Throws: Unsupported if a random crop is larger than the padded image, or the image is too
/// narrow.
Geometry choose_geometry(std::span<const Transform> transforms, int width, int height,
                         const SampleId& id);

}  // namespace millrace::decode::detail

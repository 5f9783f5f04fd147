// From a list of transforms and a sample's id to the Geometry of that sample.
//
// Source: torchvision.transforms, for every formula and every rounding.
#pragma once

#include <span>

#include "decode/detail/geometry.h"
#include "decode/sample_id.h"
#include "decode/transforms.h"

namespace millrace::decode::detail {

/// Throws: Unsupported when a random crop is larger than the padded image.
Geometry choose_geometry(std::span<const Transform> transforms, int width, int height,
                         const SampleId& id);

}  // namespace millrace::decode::detail

// In-place changes of 8-bit pixels by what lies around them.
#pragma once

#include "decode/transform_step.h"

namespace millrace::decode::detail {

/// Multiplies every level's distance from the mean of its 3 x 3 neighbourhood (the middle counts 5
/// of 13) by `factor`: below 1 blurs, above sharpens. The outermost pixels stay. Source: PIL's
/// ImageEnhance.Sharpness, to the bit.
void change_sharpness(Pixels& pixels, double factor);

/// Convolves with a Gaussian of `kernel_size` x `kernel_size` pixels; beyond its sides the picture
/// is reflected. Source: torchvision's gaussian_blur, within one level. Requires: kernel_size is
/// odd, sigma > 0.
void blur(Pixels& pixels, int kernel_size, double sigma);

}  // namespace millrace::decode::detail

// Interpolation: how a resize or a turn computes new pixels.
//
// Threads: pure functions.
#pragma once

#include <optional>

#include "io/component/value_type.h"

namespace millrace {
class KeyedRng;
}

namespace millrace::decode {

/// Resizes are antialiased, but for kNearest: PIL's, and torchvision's with antialias.
enum class Interpolation {
  kBilinear,  ///< of 2 x 2 pixels, more where the picture shrinks
  kNearest,   ///< no new values: for masks
  kBicubic,   ///< of 4 x 4 pixels; overshoots a little beside edges
  kLanczos,   ///< of 6 x 6 pixels
  kRandom,    ///< bilinear or bicubic, drawn for each picture; of transforms alone
};

const ValueType& value_type(const Interpolation&);

/// What is to be done: draws for kRandom, else nothing.
std::optional<Interpolation> drawn(std::optional<Interpolation> asked, KeyedRng& rng);

/// How far from its middle, in pixels of the larger of both pictures, a pixel takes from others.
int filter_reach(Interpolation interpolation);

/// The filter at distance `x`. Requires: |x| <= filter_reach(), not kRandom.
double filter_weight(Interpolation interpolation, double x);

}  // namespace millrace::decode

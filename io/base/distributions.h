// Numbers of other distributions than KeyedRng's own.
//
// Threads: as the generator.
#pragma once

#include "io/base/rng.h"

namespace millrace {

/// Gamma-distributed, with scale 1. Requires: shape > 0. Source: Marsaglia, Tsang, "A simple method
/// for generating gamma variables" (2000).
double random_gamma(double shape, KeyedRng& rng);

/// Beta-distributed, in [0, 1]. Requires: a > 0, b > 0.
double random_beta(double a, double b, KeyedRng& rng);

}  // namespace millrace

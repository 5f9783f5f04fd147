#include "io/base/distributions.h"

#include <cmath>

namespace millrace {
namespace {

/// In (0, 1).
double open_uniform(KeyedRng& rng) { return static_cast<double>(rng.uniform()) + 0x1.0p-25; }

double gamma_of_large_shape(double shape, KeyedRng& rng) {
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = static_cast<double>(rng.normal());
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(open_uniform(rng)) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace

double random_gamma(double shape, KeyedRng& rng) {
  if (shape >= 1) return gamma_of_large_shape(shape, rng);
  const double larger = gamma_of_large_shape(shape + 1, rng);
  return larger * std::pow(open_uniform(rng), 1 / shape);
}

double random_beta(double a, double b, KeyedRng& rng) {
  const double x = random_gamma(a, rng);
  const double y = random_gamma(b, rng);
  // Of tiny shapes both may be too small for a double: then one of them is all there is.
  if (x + y <= 0) return static_cast<double>(rng.uniform()) < a / (a + b) ? 1 : 0;
  return x / (x + y);
}

}  // namespace millrace

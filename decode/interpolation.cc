#include "decode/interpolation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "io/base/rng.h"

namespace millrace::decode {
namespace {

/// Source: Keys, "Cubic convolution interpolation for digital image processing" (1981); its best
/// parameter, -1/2, as PIL has it.
double cubic(double x) {
  x = std::abs(x);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

double sinc(double x) {
  const double angle = std::numbers::pi * x;
  return x == 0 ? 1 : std::sin(angle) / angle;
}

double lanczos(double x) { return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0; }

}  // namespace

const ValueType& value_type(const Interpolation&) {
  static const EnumType<Interpolation> type({{"bilinear", Interpolation::kBilinear},
                                             {"bicubic", Interpolation::kBicubic},
                                             {"lanczos", Interpolation::kLanczos},
                                             {"nearest", Interpolation::kNearest},
                                             {"random", Interpolation::kRandom}});
  return type;
}

std::optional<Interpolation> drawn(std::optional<Interpolation> asked, KeyedRng& rng) {
  if (asked != Interpolation::kRandom) return asked;
  return rng.below(2) == 0 ? Interpolation::kBilinear : Interpolation::kBicubic;
}

int filter_reach(Interpolation interpolation) {
  if (interpolation == Interpolation::kLanczos) return 3;
  return interpolation == Interpolation::kBicubic ? 2 : 1;
}

double filter_weight(Interpolation interpolation, double x) {
  if (interpolation == Interpolation::kLanczos) return lanczos(x);
  if (interpolation == Interpolation::kBicubic) return cubic(x);
  return std::max(0.0, 1.0 - std::abs(x));
}

}  // namespace millrace::decode

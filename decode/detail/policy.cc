#include "decode/detail/policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "decode/detail/colour.h"
#include "decode/detail/neighbours.h"
#include "decode/detail/projections.h"
#include "decode/detail/random_levels.h"
#include "decode/detail/sampler.h"

namespace millrace::decode::detail {
namespace {

using Unit = Strengths::Unit;
using enum Operation;

/// The same for all policies: what has no magnitude.
constexpr Strengths plain(Operation operation) { return {.operation = operation}; }
/// From 0, in both directions.
constexpr Strengths both_ways(Operation operation, double to, Unit unit = Unit::kPlain) {
  return {.operation = operation, .to = to, .unit = unit, .has_sign = true};
}

template <std::size_t A, std::size_t B>
constexpr std::array<Strengths, A + B> joined(const std::array<Strengths, A>& first,
                                              const std::array<Strengths, B>& second) {
  std::array<Strengths, A + B> all{};
  std::ranges::copy(first, all.begin());
  std::ranges::copy(second, all.begin() + A);
  return all;
}

/// What RandAugment and AutoAugment share. Source: torchvision's RandAugment; a translation of 150
/// pixels of 331, as in the paper.
constexpr std::array kOfBoth = {both_ways(kShearX, 0.3),
                                both_ways(kShearY, 0.3),
                                both_ways(kTranslateX, 150.0 / 331, Unit::kOfWidth),
                                both_ways(kTranslateY, 150.0 / 331, Unit::kOfHeight),
                                both_ways(kRotate, 30),
                                both_ways(kBrightness, 0.9),
                                both_ways(kColor, 0.9),
                                both_ways(kContrast, 0.9),
                                both_ways(kSharpness, 0.9),
                                Strengths{kPosterize, 8, 4, Unit::kRounded},
                                Strengths{kSolarize, 255, 0},
                                plain(kAutoContrast),
                                plain(kEqualize)};
constexpr auto kRandAugment = joined(std::array{plain(kIdentity)}, kOfBoth);
constexpr auto kAutoAugment = joined(kOfBoth, std::array{plain(kInvert)});

constexpr std::array kTrivialAugment = {plain(kIdentity),
                                        both_ways(kShearX, 0.99),
                                        both_ways(kShearY, 0.99),
                                        both_ways(kTranslateX, 32),
                                        both_ways(kTranslateY, 32),
                                        both_ways(kRotate, 135),
                                        both_ways(kBrightness, 0.99),
                                        both_ways(kColor, 0.99),
                                        both_ways(kContrast, 0.99),
                                        both_ways(kSharpness, 0.99),
                                        Strengths{kPosterize, 8, 2, Unit::kRounded},
                                        Strengths{kSolarize, 255, 0},
                                        plain(kAutoContrast),
                                        plain(kEqualize)};

constexpr std::array kAugMix = {both_ways(kShearX, 0.3),
                                both_ways(kShearY, 0.3),
                                both_ways(kTranslateX, 1.0 / 3, Unit::kOfWidth),
                                both_ways(kTranslateY, 1.0 / 3, Unit::kOfHeight),
                                both_ways(kRotate, 30),
                                Strengths{kPosterize, 4, 0, Unit::kRounded},
                                Strengths{kSolarize, 255, 0},
                                plain(kAutoContrast),
                                plain(kEqualize),
                                both_ways(kBrightness, 0.9),
                                both_ways(kColor, 0.9),
                                both_ways(kContrast, 0.9),
                                both_ways(kSharpness, 0.9)};

/// Source: timm's auto_augment.py; rand-..., without and with inc1.
constexpr std::array kTimm = {plain(kAutoContrast),
                              plain(kEqualize),
                              plain(kInvert),
                              both_ways(kRotate, 30),
                              Strengths{kPosterize, 0, 4, Unit::kCut},
                              Strengths{kSolarize, 0, 256, Unit::kCut},
                              Strengths{kSolarizeAdd, 0, 110, Unit::kCut},
                              Strengths{kColor, -0.9, 0.9},
                              Strengths{kContrast, -0.9, 0.9},
                              Strengths{kBrightness, -0.9, 0.9},
                              Strengths{kSharpness, -0.9, 0.9},
                              both_ways(kShearX, 0.3),
                              both_ways(kShearY, 0.3),
                              both_ways(kTranslateX, 0.45, Unit::kOfWidth),
                              both_ways(kTranslateY, 0.45, Unit::kOfHeight)};

constexpr std::array kTimmIncreasing = {plain(kAutoContrast),
                                        plain(kEqualize),
                                        plain(kInvert),
                                        both_ways(kRotate, 30),
                                        Strengths{kPosterize, 4, 0, Unit::kCut},
                                        Strengths{kSolarize, 256, 0, Unit::kCut},
                                        Strengths{kSolarizeAdd, 0, 110, Unit::kCut},
                                        both_ways(kColor, 0.9),
                                        both_ways(kContrast, 0.9),
                                        both_ways(kBrightness, 0.9),
                                        both_ways(kSharpness, 0.9),
                                        both_ways(kShearX, 0.3),
                                        both_ways(kShearY, 0.3),
                                        both_ways(kTranslateX, 0.45, Unit::kOfWidth),
                                        both_ways(kTranslateY, 0.45, Unit::kOfHeight)};

Projection sheared(double along, double across) {
  constexpr double kDegree = 180 / std::numbers::pi;
  return affine_projection({.shear = {std::atan(along) * kDegree, std::atan(across) * kDegree}});
}

/// Whole pixels, as PIL's translation by torchvision.
Projection moved(double right, double down) {
  return Projection::shift(-std::trunc(right), -std::trunc(down));
}

/// Where an operation that moves pixels looks.
Projection where_of(const Drawn& drawn, const Pixels& pixels) {
  const double by = drawn.magnitude;
  switch (drawn.operation) {
    case kShearX:
      return sheared(by, 0);
    case kShearY:
      return sheared(0, by);
    case kTranslateX:
      return moved(by, 0);
    case kTranslateY:
      return moved(0, by);
    default:
      return rotation(by, pixels.width, pixels.height);
  }
}

LevelStep::Levels table_of(const Drawn& drawn) {
  const int by = static_cast<int>(drawn.magnitude);
  switch (drawn.operation) {
    case kPosterize:
      return level_table(
          [mask = by >= 8 ? 255 : ~((1 << (8 - by)) - 1)](int level) { return level & mask; });
    case kSolarize:
      return level_table(
          [from = drawn.magnitude](int level) { return level < from ? level : 255 - level; });
    case kSolarizeAdd:
      return level_table(
          [by](int level) { return level < 128 ? std::min(level + by, 255) : level; });
    default:
      return level_table([](int level) { return 255 - level; });
  }
}

}  // namespace

double Strengths::magnitude(double strength, int height, int width) const {
  const double by = (to - from) * strength;
  switch (unit) {
    case Unit::kPlain:
      return from + by;
    case Unit::kOfWidth:
      return (from + by) * width;
    case Unit::kOfHeight:
      return (from + by) * height;
    case Unit::kRounded:
      return from + std::nearbyint(by);
    case Unit::kCut:
      // A strength of 0.9 is not quite 9 / 10: what it means is.
      return from + std::trunc(by + std::copysign(1e-9, by));
  }
  return 0;
}

double random_magnitude(const Strengths& strengths, double strength, const Pixels& pixels,
                        KeyedRng& rng) {
  const double magnitude = strengths.magnitude(strength, pixels.height, pixels.width);
  return strengths.has_sign && rng.below(2) == 1 ? -magnitude : magnitude;
}

std::span<const Strengths> rand_augment_space() { return kRandAugment; }
std::span<const Strengths> trivial_augment_space() { return kTrivialAugment; }
std::span<const Strengths> auto_augment_space() { return kAutoAugment; }
std::span<const Strengths> aug_mix_space() { return kAugMix; }
std::span<const Strengths> timm_space(bool increasing) {
  return increasing ? std::span<const Strengths>(kTimmIncreasing) : kTimm;
}

void apply(const Drawn& drawn, const Fill& fill, Pixels& pixels) {
  const auto levels = pixels.levels;
  const int channels = pixels.channels;
  switch (drawn.operation) {
    case kIdentity:
      return;
    case kShearX:
    case kShearY:
    case kTranslateX:
    case kTranslateY:
    case kRotate:
      return sample_in_place(pixels, {.where = where_of(drawn, pixels), .fill = fill},
                             drawn.interpolation);
    case kBrightness:
      return change_brightness(levels, 1 + drawn.magnitude);
    case kColor:
      return change_saturation(levels, channels, 1 + drawn.magnitude);
    case kContrast:
      return change_contrast(levels, channels, 1 + drawn.magnitude);
    case kSharpness:
      return change_sharpness(pixels, 1 + drawn.magnitude);
    case kPosterize:
    case kSolarize:
    case kSolarizeAdd:
    case kInvert:
      return apply_levels(pixels, table_of(drawn));
    case kAutoContrast:
      return stretch_contrast(levels, channels);
    case kEqualize:
      return equalize(levels, channels);
  }
}

void PolicyStep::change(Pixels& pixels, KeyedRng& rng) const {
  for (const Drawn& drawn : draw(pixels, rng)) apply(drawn, fill_, pixels);
}

}  // namespace millrace::decode::detail

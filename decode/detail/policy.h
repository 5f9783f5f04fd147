// What augmentation policies (RandAugment, AutoAugment, ...) are made of: operations, each with a
// magnitude, in torchvision's and PIL's meaning of both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decode/geometry.h"
#include "decode/transform_step.h"

namespace millrace::decode::detail {

enum class Operation : std::uint8_t {
  kIdentity,
  kShearX,      ///< by `magnitude` pixels for each row
  kShearY,      ///< by `magnitude` pixels for each column
  kTranslateX,  ///< by `magnitude` pixels to the right
  kTranslateY,  ///< by `magnitude` pixels downwards
  kRotate,      ///< by `magnitude` degrees anticlockwise
  kBrightness,  ///< by a factor of 1 + magnitude; so the three that follow
  kColor,
  kContrast,
  kSharpness,
  kPosterize,    ///< to `magnitude` bits
  kSolarize,     ///< levels from `magnitude` on are inverted
  kSolarizeAdd,  ///< `magnitude` is added to levels below 128
  kAutoContrast,
  kEqualize,
  kInvert,
};

/// An operation as it was drawn.
struct Drawn {
  Operation operation = Operation::kIdentity;
  double magnitude = 0;
  Interpolation interpolation = Interpolation::kNearest;
};

/// Which magnitudes an operation has, from strength 0 to strength 1.
struct Strengths {
  enum class Unit : std::uint8_t {
    kPlain,
    kOfWidth,   ///< of the picture's
    kOfHeight,  ///< of the picture's
    kRounded,   ///< whole steps from the first
    kCut,       ///< whole steps from the first, downwards
  };

  Operation operation = Operation::kIdentity;
  double from = 0;
  double to = 0;
  Unit unit = Unit::kPlain;
  bool has_sign = false;  ///< as often negative

  /// Requires: 0 <= strength <= 1.
  double magnitude(double strength, int height, int width) const;
};

/// Its magnitude, negative as often as not if it has a sign.
double random_magnitude(const Strengths& strengths, double strength, const Pixels& pixels,
                        KeyedRng& rng);

/// What torchvision's policies choose from: RandAugment, TrivialAugmentWide, AutoAugment, AugMix
/// (all of its operations; the first 9 are those without colours).
std::span<const Strengths> rand_augment_space();
std::span<const Strengths> trivial_augment_space();
std::span<const Strengths> auto_augment_space();
std::span<const Strengths> aug_mix_space();
/// What timm's rand-... chooses from; `increasing`: more strength always changes more.
std::span<const Strengths> timm_space(bool increasing);

void apply(const Drawn& drawn, const Fill& fill, Pixels& pixels);

/// A policy that applies operations one after another.
class PolicyStep : public PixelStep {
 public:
  explicit PolicyStep(const Fill& fill) : fill_(fill) {}

  /// The operations for a picture of this size.
  virtual std::vector<Drawn> draw(const Pixels& pixels, KeyedRng& rng) const = 0;

  void change(Pixels& pixels, KeyedRng& rng) const final;
  bool moves() const final { return true; }

 private:
  Fill fill_;
};

}  // namespace millrace::decode::detail

// RandAugment, TrivialAugmentWide: operations drawn from a list. Source: torchvision.transforms.v2;
// Cubuk et al., "RandAugment" (2019); Müller, Hutter, "TrivialAugment" (2021); timm's auto_augment.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "decode/interpolation.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Which operations there are, and what their strengths mean.
enum class AugmentSpace {
  kTorchvision,
  kTimm,  ///< with Invert and SolarizeAdd, magnitudes from 0 to 10, each operation done half the
          ///< time
};
const ValueType& value_type(const AugmentSpace&);

/// `num_ops` operations of one magnitude, one after another. timm's rand-m9-mstd0.5-inc1 is
/// {.magnitude = 9, .std = 0.5, .space = kTimm, .increasing = true}.
struct RandAugment {
  int num_ops = 2;
  double magnitude = 9;
  int num_magnitude_bins = 31;  ///< of torchvision's space: magnitudes are below it
  double std = 0;               ///< of the magnitude, drawn for each operation
  AugmentSpace space = AugmentSpace::kTorchvision;
  bool increasing = false;                 ///< of timm's space: more always changes more
  std::optional<double> probability = {};  ///< of each operation; none: the space's own
  Interpolation interpolation = Interpolation::kNearest;
  std::vector<int> fill = {0};

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

/// One operation of any magnitude.
struct TrivialAugmentWide {
  int num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::kNearest;
  std::vector<int> fill = {0};

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

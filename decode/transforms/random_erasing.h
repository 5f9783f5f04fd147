// RandomErasing: blanks a random rectangle. Source: torchvision.transforms.v2.RandomErasing; Zhong
// and others, "Random Erasing Data Augmentation" (2017).
#pragma once

#include <memory>
#include <vector>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Stands before Normalize: `value` is in levels, where torchvision's is in normalised values if it
/// follows Normalize. So what it calls 0 is there the mean: {124, 116, 104} for ImageNet's.
struct RandomErasing {
  double probability = 0.5;
  Interval area = {0.02, 0.33};  ///< share of the picture's; torchvision's scale
  Interval ratio = {0.3, 3.3};   ///< height / width, as there
  std::vector<int> value = {0};

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

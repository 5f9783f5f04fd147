// RandomAdjustSharpness. Source: torchvision.transforms.v2.RandomAdjustSharpness, with the
// arithmetic of PIL's ImageEnhance.
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Multiplies the distance of each level from the mean around it; the outermost pixels stay.
struct RandomAdjustSharpness {
  double factor = 2.0;  ///< below 1 blurs, above sharpens
  double probability = 0.5;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

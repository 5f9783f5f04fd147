// RandomSolarize. Source: torchvision.transforms.v2.RandomSolarize.
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Levels from `threshold` on become 255 - level.
struct RandomSolarize {
  int threshold = 128;
  double probability = 0.5;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

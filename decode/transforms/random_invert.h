// RandomInvert. Source: torchvision.transforms.v2.RandomInvert.
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Levels become 255 - level.
struct RandomInvert {
  double probability = 0.5;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

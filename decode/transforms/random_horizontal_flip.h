// RandomHorizontalFlip. Source: torchvision.transforms.RandomHorizontalFlip.
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// May stand anywhere: it is done with the geometry, before levels change.
struct RandomHorizontalFlip {
  double probability = 0.5;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

// RandomAutocontrast, RandomEqualize: levels spread by how often each occurs. Source:
// torchvision.transforms.v2, with the arithmetic of PIL's ImageOps.
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Each colour's levels are stretched until they reach from 0 to 255.
struct RandomAutocontrast {
  double probability = 0.5;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

/// Each colour's levels are spread until they are about equally frequent.
struct RandomEqualize {
  double probability = 0.5;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

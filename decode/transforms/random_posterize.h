// RandomPosterize. Source: torchvision.transforms.v2.RandomPosterize.
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// The lower 8 - `bits` bits of each level become 0.
struct RandomPosterize {
  int bits = 4;
  double probability = 0.5;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

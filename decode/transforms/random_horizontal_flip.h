// RandomHorizontalFlip. Source: torchvision.transforms.RandomHorizontalFlip; `alternate` as in
// airbench94 (Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024).
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// May stand anywhere: it is done with the geometry, before levels change.
struct RandomHorizontalFlip {
  double probability = 0.5;
  /// Drawn once for each sample, by its key; in every second epoch the others are mirrored. So any
  /// two epochs that follow each other show a picture both ways.
  bool alternate = false;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

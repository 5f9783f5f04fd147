// RandomCrop: a window at a random position. Source: torchvision.transforms.RandomCrop.
#pragma once

#include <memory>

#include "decode/extent.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Pads each side by `padding` zeros, then takes a window of `size`. A picture that is smaller with
/// its padding is a fault of its sample (Unsupported).
struct RandomCrop {
  Extent size = {};
  int padding = 0;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

// RandomCrop: a window at a random position. Source: torchvision.transforms.RandomCrop.
#pragma once

#include <memory>

#include "decode/extent.h"
#include "decode/geometry.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Pads each side by `padding` pixels, then takes a window of `size`. A picture that is smaller
/// with its padding is a fault of its sample (Unsupported).
struct RandomCrop {
  Extent size = {};
  int padding = 0;
  Border mode = Border::kConstant;  ///< of the padding

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

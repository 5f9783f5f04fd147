// ColorJitter. Source: torchvision.transforms.ColorJitter, with PIL's arithmetic.
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Random brightness, contrast and saturation, each by a factor in [max(0, 1 - x), 1 + x], and a
/// turn of the hues by [-hue, hue] of the circle, in random order.
struct ColorJitter {
  double brightness = 0.0;
  double contrast = 0.0;
  double saturation = 0.0;
  double hue = 0.0;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

// RandomRotation. Source: torchvision.transforms.v2.RandomRotation.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "decode/extent.h"
#include "decode/interpolation.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Turns the picture about its middle, anticlockwise by positive angles. Its size stays: corners
/// are cut off.
struct RandomRotation {
  Angles degrees = {-1000, 1000};
  std::optional<Interpolation> interpolation = {};  ///< none: as the decoder says
  std::vector<int> fill = {0};  ///< level of what is not covered, or of each colour

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

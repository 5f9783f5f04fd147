// Pad: pixels around the picture. Source: torchvision.transforms.v2.Pad.
#pragma once

#include <memory>
#include <vector>

#include "decode/extent.h"
#include "decode/geometry.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// The size that follows is that of the picture with its padding.
struct Pad {
  Sides padding = {-1};
  std::vector<int> fill = {0};  ///< level of a constant border, or of each colour
  Border mode = Border::kConstant;

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

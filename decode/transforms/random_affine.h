// RandomAffine: turned, moved, scaled and sheared. Source: torchvision.transforms.v2.RandomAffine.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "decode/extent.h"
#include "decode/interpolation.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// About the picture's middle, clockwise by positive angles; its size stays.
struct RandomAffine {
  Angles degrees = {-1000, 1000};
  /// Of width and height, or one for both: moves by up to this share.
  std::vector<double> translate = {};
  Interval scale = {1, 1};
  Angles shear_x = {0};
  Angles shear_y = {0};
  std::optional<Interpolation> interpolation = {};  ///< none: as the decoder says
  std::vector<int> fill = {0};  ///< level of what is not covered, or of each colour

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

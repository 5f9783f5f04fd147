// RandomResizedCrop: a window of random area and aspect ratio, resized. Source:
// torchvision.transforms.RandomResizedCrop.
#pragma once

#include <memory>
#include <optional>

#include "decode/extent.h"
#include "decode/interpolation.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

struct RandomResizedCrop {
  Extent size = 224;
  Interval area = {0.08, 1.0};                      ///< share of the picture's; torchvision's scale
  Interval ratio = {3.0 / 4.0, 4.0 / 3.0};          ///< width / height
  std::optional<Interpolation> interpolation = {};  ///< none: as the decoder says

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

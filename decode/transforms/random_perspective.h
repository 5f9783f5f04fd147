// RandomPerspective. Source: torchvision.transforms.v2.RandomPerspective.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "decode/extent.h"
#include "decode/interpolation.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Moves each corner inwards, by up to `distortion` of half a side. The picture's size stays.
struct RandomPerspective {
  double distortion = 0.5;
  double probability = 0.5;
  std::optional<Interpolation> interpolation = {};  ///< none: as the decoder says
  std::vector<int> fill = {0};  ///< level of what is not covered, or of each colour

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

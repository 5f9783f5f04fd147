// RandomGrayscale. Source: torchvision.transforms.v2.RandomGrayscale, with PIL's rounding.
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Colours become their ITU-R 601 luma, in as many channels as there were.
struct RandomGrayscale {
  double probability = 0.1;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

// GaussianBlur. Source: torchvision.transforms.v2.GaussianBlur.
#pragma once

#include <memory>

#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Convolves with a Gaussian, whose deviation is drawn for each picture. Beyond its sides the
/// picture is reflected.
struct GaussianBlur {
  int kernel_size = 0;  ///< odd, in pixels
  Interval sigma = {0.1, 2.0};

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

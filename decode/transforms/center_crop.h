// CenterCrop: the middle of the picture. Source: torchvision.transforms.CenterCrop.
#pragma once

#include <memory>

#include "decode/extent.h"
#include "io/component/component.h"

namespace millrace::decode {

class TransformStep;

/// Where the picture is smaller, it is padded with zeros.
struct CenterCrop {
  Extent size = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<TransformStep> make() const;
};

}  // namespace millrace::decode

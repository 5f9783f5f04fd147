// MobileNetV3. Source: Howard and others, "Searching for MobileNetV3" (2019); names and numbers as
// in torchvision. Threads: as values.
#pragma once

#include <memory>

#include "trainer/models/models.h"

namespace millrace::trainer::models {

struct MobileNetV3Large {
  float dropout = 0.2F;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

struct MobileNetV3Small {
  float dropout = 0.2F;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

}  // namespace millrace::trainer::models

// EfficientNet. Source: Tan, Le, "EfficientNet: rethinking model scaling for convolutional neural
// networks" (2019); names and numbers as in torchvision. Threads: as values.
#pragma once

#include <memory>

#include "trainer/models/models.h"

namespace millrace::trainer::models {

struct EfficientNetB0 {
  float dropout = 0.2F;
  float stochastic_depth = 0.2F;  ///< of the last block; the first has none

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

}  // namespace millrace::trainer::models

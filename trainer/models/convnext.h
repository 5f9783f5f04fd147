// ConvNeXt. Source: Liu and others, "A ConvNet for the 2020s" (2022); names and numbers as in
// torchvision. Threads: as values.
#pragma once

#include <memory>

#include "trainer/models/models.h"

namespace millrace::trainer::models {

struct ConvNeXtTiny {
  float stochastic_depth = 0.1F;  ///< of the last block; the first has none

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

}  // namespace millrace::trainer::models

// AlexNet in its one-tower form, with torchvision's names. Source: Krizhevsky, "One weird trick for
// parallelizing convolutional neural networks" (2014). Threads: as a value.
#pragma once

#include <memory>

#include "trainer/models/models.h"

namespace millrace::trainer::models {

struct AlexNet {
  float dropout = 0.5F;  ///< before its hidden layers

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

}  // namespace millrace::trainer::models

// LeNet-5 with ReLU and max-pooling. Source: LeCun, Bottou, Bengio, Haffner, "Gradient-based
// learning applied to document recognition" (1998), in the form of today's tutorials. Threads: as
// a value.
#pragma once

#include <memory>

#include "trainer/models/models.h"

namespace millrace::trainer::models {

struct LeNet {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<Architecture> make() const;
};

}  // namespace millrace::trainer::models

// LARS: SGD with a rate for each layer, which is applied before the momentum buffer, not after it:
// buf = momentum * buf + lr * trust * |w| / (|g| + decay * |w|) * (g + decay * w); w -= buf.
// Source: You, Gitman, Ginsburg, "Large batch training of convolutional networks" (2017).
//
// Threads: as a value.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/update_rule.h"

namespace millrace::trainer {

struct Lars {
  /// Default: 4 from 128 samples per step on, less in proportion for fewer.
  std::optional<double> lr = {};
  float momentum = 0.9F;
  float trust = 0.001F;
  float weight_decay = 0.0F;
  std::vector<ParameterGroup> groups = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<UpdateRule> make() const;
};

}  // namespace millrace::trainer

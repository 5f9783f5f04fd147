// Lion: steps of one size along the sign of a mean of gradients.
//
// w -= lr * (sign(b1 * m + (1 - b1) * g) + decay * w); m = b2 * m + (1 - b2) * g. One state, half
// of Adam's. A rate of a third to a tenth of AdamW's, and a decay of as many times its, are usual.
// Source: Chen and others, "Symbolic discovery of optimization algorithms" (2023).
//
// Threads: as a value.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/update_rule.h"

namespace millrace::trainer {

struct Lion {
  std::optional<double> lr = {};  ///< Default: 0.0003.
  std::vector<float> betas = {0.9F, 0.99F};
  float weight_decay = 0.0F;
  std::vector<ParameterGroup> groups = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  /// Throws: InvalidArgument unless there are two betas.
  void check() const;
  std::unique_ptr<UpdateRule> make() const;
};

}  // namespace millrace::trainer

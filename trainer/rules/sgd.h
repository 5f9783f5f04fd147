// SGD with momentum: g = scale * gradient + decay * w; buf = momentum * buf + (1 - dampening) * g,
// on the first step g; w -= lr * buf, with Nesterov lr * (g + momentum * buf). Source:
// torch.optim.SGD.
//
// Threads: as a value.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/update_rule.h"

namespace millrace::trainer {

struct Sgd {
  /// Default: 0.1 from 128 samples per step on, less in proportion for fewer; of a model without
  /// batch norms 0.05.
  std::optional<double> lr = {};
  float momentum = 0.9F;
  float dampening = 0.0F;
  bool nesterov = false;
  float weight_decay = 0.0F;
  std::vector<ParameterGroup> groups = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  /// Throws: InvalidArgument for Nesterov without momentum, or with dampening.
  void check() const;
  std::unique_ptr<UpdateRule> make() const;
};

}  // namespace millrace::trainer

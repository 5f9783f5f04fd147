// Adam and AdamW.
//
// m = b1 * m + (1 - b1) * g; v = b2 * v + (1 - b2) * g^2;
// w -= lr / (1 - b1^t) * m / (sqrt(v / (1 - b2^t)) + eps). Adam adds decay * w to the gradient, as
// torch.optim.Adam does; AdamW has w *= 1 - lr * decay instead. Source: Kingma and Ba, "Adam: a
// method for stochastic optimization" (2015); Loshchilov and Hutter, "Decoupled weight decay
// regularization" (2019).
//
// Threads: as a value.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/update_rule.h"

namespace millrace::trainer {

struct Adam {
  std::optional<double> lr = {};  ///< Default: 0.001.
  std::vector<float> betas = {0.9F, 0.999F};
  float eps = 1e-8F;  ///< added outside the root
  float weight_decay = 0.0F;
  std::vector<ParameterGroup> groups = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  /// Throws: InvalidArgument unless there are two betas.
  void check() const;
  std::unique_ptr<UpdateRule> make() const;
};

struct AdamW {
  std::optional<double> lr = {};  ///< Default: 0.001.
  std::vector<float> betas = {0.9F, 0.999F};
  float eps = 1e-8F;
  float weight_decay = 0.01F;
  std::vector<ParameterGroup> groups = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<UpdateRule> make() const;
};

}  // namespace millrace::trainer

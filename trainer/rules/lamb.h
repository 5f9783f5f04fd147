// LAMB: AdamW with a rate for each layer, by the norms of its weights and of its step.
//
// r = m' / (sqrt(v') + eps) + decay * w, with Adam's means m' and v' without their bias;
// w -= lr * |w| / |r| * r. Where one of the norms is zero, and for biases and norms, as LARS has
// it, the rate is lr. Source: You and others, "Large batch optimization for deep learning: training
// BERT in 76 minutes" (2019), with phi(x) = x.
//
// Threads: as a value.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "trainer/update_rule.h"

namespace millrace::trainer {

struct Lamb {
  std::optional<double> lr = {};  ///< Default: 0.01.
  std::vector<float> betas = {0.9F, 0.999F};
  float eps = 1e-6F;  ///< added outside the root
  float weight_decay = 0.01F;
  std::vector<ParameterGroup> groups = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  /// Throws: InvalidArgument unless there are two betas.
  void check() const;
  std::unique_ptr<UpdateRule> make() const;
};

}  // namespace millrace::trainer

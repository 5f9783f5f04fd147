// PrecisionOption: --precision, what a model computes in.
//
// Threads: a value type.
#pragma once

#include <string>

#include "decode/array_view.h"
#include "trainer/nn/plan.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct PrecisionOption {
  std::string word = "bf16";

  /// In the group that options are declared in.
  void declare(CLI::App& app);
  trainer::nn::Precision compute() const;
  /// True for bf16-true: weights and optimizer state are rounded too.
  bool rounds_weights() const { return word == "bf16-true"; }
  /// Of what the loader brings to the model.
  decode::DType input() const;
};

}  // namespace millrace::tools

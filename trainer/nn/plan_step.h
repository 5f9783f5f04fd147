// PlanStep: one thing that a plan does in a training step, as Plan::describe() tells of it: a
// primitive, a copy to another layout or type, a loop. What is not in the list is not done.
//
// Threads: a value type.
#pragma once

#include <string>

#include "trainer/nn/layers.h"

namespace millrace::trainer::nn {

enum class PlanPass { kForward, kBackward };

struct PlanStep {
  /// The layers that are computed as one, by their names in the state dict: "layer1.0.bn1 + relu1".
  std::string layer = {};
  Shape input = {};   ///< of the layer's first input, without the batch
  Shape output = {};  ///< of its result
  PlanPass pass = PlanPass::kForward;
  /// "convolution", "batch norm", "reorder" (another layout or type), "rounding" (to bf16), ...
  std::string kind = {};
  /// What it makes: W and b, the weights and bias as a primitive takes them; dW, db and dx, the
  /// gradients of these and of the input. Empty where that is plain.
  std::string part = {};
  /// In oneDNN's letters: "nChw16c"; "f32 nhwc > bf16 nChw16c" for what changes it.
  std::string layout = {};
  /// oneDNN's name of the implementation, "brgconv:avx512_core_bf16"; "millrace" for its own loops.
  std::string kernel = {};
  /// Of convolutions and matrix products: 2 per multiply-add. The others wait for memory: 0.
  double flops = 0;
  /// That it cannot help reading and writing: each of its arrays once.
  double bytes = 0;
};

}  // namespace millrace::trainer::nn

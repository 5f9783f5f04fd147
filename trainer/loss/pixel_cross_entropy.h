// Logits (N, K, H, W), labels (N, H, W): over a slot's pixels that are not ignored, the mean of
// (1 - e) w_y nll + e / K sum_k w_k (-log p_k), weighted by w_y, as PyTorch's; with `dice` d above
// 0, plus d (1 - the mean over the slot's classes of (2 sum p y + 1) / (sum p + sum y + 1)), p the
// softmax. The mean is over one slot, so that a loss does not depend on how a batch is divided; a
// slot without counted pixels has loss 0.
//
// Threads: as a value.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/loss/loss.h"

namespace millrace::trainer::losses {

struct PixelCrossEntropy {
  float label_smoothing = 0.0F;
  std::int64_t ignore_index = 255;        ///< the label of pixels that do not count; -1: none
  std::vector<float> class_weights = {};  ///< of each class; empty: all 1
  float dice = 0.0F;                      ///< the weight of the softmax's Dice beside the rest

  static const ComponentName kName;
  void fields(FieldList& field);
  /// What is listed but for `dice`.
  void list_cross_entropy(FieldList& field);
  std::unique_ptr<Loss> make() const;
};

}  // namespace millrace::trainer::losses

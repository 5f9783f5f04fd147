// Losses that compare values: means over a slot's values whose target is not NaN; a slot without
// any has loss 0. Threads: as values.
#pragma once

#include <memory>

#include "trainer/loss/loss.h"

namespace millrace::trainer::losses {

/// Logits x, targets y in [0, 1]: mean of max(x, 0) - x y + log1p(exp(-|x|)).
struct Bce {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<Loss> make() const;
};

/// 1 - (2 sum(p y) + 1) / (sum(p) + sum(y) + 1), p = sigmoid(x), over a slot's values. Source:
/// Milletari, Navab, Ahmadi, "V-Net" (2016), without squares.
struct Dice {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<Loss> make() const;
};

/// Mean of |x - y|.
struct L1 {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<Loss> make() const;
};

/// Mean of (x - y)^2.
struct Mse {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<Loss> make() const;
};

/// The root of the mean of (x - y)^2, of each slot.
struct Rmse {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<Loss> make() const;
};

/// Mean of |d| where |d| <= c, else (d^2 + c^2) / 2c, with d = x - y and c a fifth of the slot's
/// largest |d|, taken as a constant. Source: Laina et al., "Deeper depth prediction with fully
/// convolutional residual networks" (2016); there c is the batch's, with which a loss would depend
/// on how a batch is divided.
struct BerHu {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<Loss> make() const;
};

}  // namespace millrace::trainer::losses

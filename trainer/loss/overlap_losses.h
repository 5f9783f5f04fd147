// Losses of binary masks by how far prediction and target overlap, beside Dice (value_losses.h).
// Threads: as values.
#pragma once

#include <memory>

#include "trainer/loss/loss.h"

namespace millrace::trainer::losses {

/// bce * BCE + dice * Dice, of a slot's logits.
struct BceDice {
  float bce = 1.0F;
  float dice = 1.0F;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Loss> make() const;
};

/// 1 - (t + 1) / (t + alpha f + beta m + 1), p = sigmoid(x): t = sum(p y) is right, f = sum(p (1 -
/// y)) wrongly set, m = sum((1 - p) y) missed, over a slot's values. Source: Salehi, Erdogmus,
/// Gholipour, "Tversky loss function for image segmentation" (2017).
struct Tversky {
  float alpha = 0.3F;
  float beta = 0.7F;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Loss> make() const;
};

}  // namespace millrace::trainer::losses

// Mean of -log softmax(x)[y]; with smoothing e: (1 - e) nll + e / K sum of all classes' -log p.
// Source: torch.nn.CrossEntropyLoss. Threads: as a value.
#pragma once

#include <memory>

#include "trainer/loss/loss.h"

namespace millrace::trainer::losses {

/// Logits (N, K), labels (N).
struct CrossEntropy {
  float label_smoothing = 0.0F;  ///< e: each class gets e / K of the target's weight

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Loss> make() const;
};

/// For the lists of cross-entropies.
void list_label_smoothing(FieldList& field, float& label_smoothing);

}  // namespace millrace::trainer::losses

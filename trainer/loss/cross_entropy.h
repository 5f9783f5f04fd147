// Losses of a class per sample, or of a mixture of two: of the softmax, and of each class alone.
//
// Of a label y each class k has the target t_k = (1 - e) [k = y] + e / K, e the label smoothing; of
// a mixture t is the labels' mean, by their shares. Threads: as values.
#pragma once

#include <memory>
#include <optional>

#include "trainer/loss/loss.h"

namespace millrace::trainer::losses {

/// -sum of t_k log softmax(x)_k: of logits (N, K) and labels (N). Source:
/// torch.nn.CrossEntropyLoss.
struct CrossEntropy {
  float label_smoothing = 0.0F;  ///< e

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Loss> make() const;
};

/// Mean over the classes of -t_k log s(x_k) - (1 - t_k) log(1 - s(x_k)), s the logistic function:
/// of logits (N, K) and labels (N). Source: Wightman and others, "ResNet strikes back" (2021),
/// whose threshold is 0.2: both labels of a mixture count as present.
struct ClassBce {
  float label_smoothing = 0.0F;         ///< e
  std::optional<float> threshold = {};  ///< t_k > threshold is 1, any other 0; none: as it is
  bool sum_classes = false;             ///< the sum over the classes in place of the mean

  static const ComponentName kName;
  void fields(FieldList& field);
  /// All but the smoothing.
  void list_classes(FieldList& field);
  /// Throws: InvalidArgument for threshold 0 beside smoothing, whose targets are all 1.
  void check() const;
  std::unique_ptr<Loss> make() const;
};

/// For the lists of cross-entropies.
void list_label_smoothing(FieldList& field, float& label_smoothing);

}  // namespace millrace::trainer::losses

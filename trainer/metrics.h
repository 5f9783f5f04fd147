// Metrics: measures of a model beside its loss, from sums that add up over batches and replicas.
//
// Threads: functions, and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace millrace::trainer {

/// Area under the ROC curve: the probability that a positive (target > 0.5) scores above a
/// negative, ties counting half. NaN without both, or with a score that is NaN. Source: the
/// Mann-Whitney rank sum.
double auroc(std::span<const float> scores, std::span<const float> targets);

/// Counts of a binary mask's values: a logit above 0 predicts 1, a target above 0.5 is 1.
struct MaskCounts {
  double both = 0;  ///< 1 and predicted 1
  double only_predicted = 0;
  double only_target = 0;
  double neither = 0;

  void add(std::span<const float> logits, std::span<const float> targets);
};

/// Intersection over union, mean over the two classes without one that never occurs; NaN if neither
/// does.
double mean_iou(const MaskCounts& counts);

/// Counts of a mask of many classes, by class. Whole numbers, so that they add up exactly.
struct ClassCounts {
  std::vector<double> both;  ///< pixels of the class that are predicted as such
  std::vector<double> predicted;
  std::vector<double> wanted;

  explicit ClassCounts(std::size_t classes) : both(classes), predicted(classes), wanted(classes) {}
  /// Adds one sample: `logits` (K, pixels), the first of the largest being the prediction. Pixels
  /// with label `ignore` do not count. Requires: all other labels in [0, K).
  void add(std::span<const float> logits, std::span<const std::int64_t> labels,
           std::int64_t ignore);
};

/// Intersection over union of each class; NaN for one that neither occurs nor is predicted.
std::vector<double> class_ious(const ClassCounts& counts);
/// The mean of those that are not NaN; NaN if all are.
double mean_iou(const ClassCounts& counts);

/// Sum of squared differences.
double squared_error(std::span<const float> predictions, std::span<const float> targets);

}  // namespace millrace::trainer

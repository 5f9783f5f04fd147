// Losses: a number to make small, and its gradient, over the valid slots of a batch.
//
// With several devices the loss is the mean over the valid slots of all of them, so a replica
// cannot divide by its own count: it is handed `divisor`, the global number of valid slots, and
// scales the gradient by 1 / divisor. Summing the replicas' gradients then gives the mean's.
//
//   auto loss = make_loss("cross_entropy", {.label_smoothing = 0.1F});
//   LossSums sums = loss->evaluate({.prediction = plan.output(0), .target = {.labels = labels},
//                                   .valid = batch.valid, .divisor = global_valid,
//                                   .gradient = plan.output_gradient(0)});
//
// Threads: evaluate() is const and may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "trainer/nn/plan.h"

namespace millrace::trainer {

/// What a prediction is compared with; one of the two is empty.
struct Target {
  std::span<const std::int64_t> labels = {};  ///< class indices: (N), or of pixels (N, H, W)
  std::span<const float> values = {};         ///< the prediction's shape
};

struct LossInput {
  nn::OutputView prediction;  ///< (N, ...) logits or values
  Target target;
  std::span<const std::uint8_t> valid;  ///< (N); slots with 0 add nothing and get zero gradient
  double divisor = 1;                   ///< valid slots of the whole step, all devices
  /// Overwritten with d (sum / divisor) / d prediction; empty in evaluation.
  std::span<float> gradient = {};
};

/// Sums over the valid slots, to be added up over batches and devices before any division.
struct LossSums {
  double loss = 0;  ///< sum of the slots' losses
  std::int64_t num_valid = 0;
  std::int64_t top1 = 0;  ///< slots whose label has the largest logit; classification only
  std::int64_t top5 = 0;  ///< among the five largest

  LossSums& operator+=(const LossSums& other);
};

class Loss {
 public:
  virtual ~Loss() = default;
  /// Throws: InvalidArgument for sizes that do not fit; Corrupt for a label outside the classes,
  /// naming the slot: who knows the batch asks first_bad_label() and adds the key.
  virtual LossSums evaluate(const LossInput& input) const = 0;
};

struct LossOptions {
  /// e: each class gets e / K of the target's weight. Both cross-entropies.
  float label_smoothing = 0;
  /// The label of pixels that count for nothing. This and what follows: pixel_cross_entropy only.
  std::int64_t ignore_label = 255;
  /// Of each class; empty: all 1. Lifetime: make_loss() copies them.
  std::span<const float> class_weights = {};
  /// The weight of the softmax's Dice beside the cross-entropy.
  float dice = 0;
};

/// "bce", "berhu", "cross_entropy", "dice", "l1", "mse", "pixel_cross_entropy";
/// trainer/loss/detail/losses.h has the formulas.
std::vector<std::string_view> loss_names();

/// Throws: InvalidArgument for a name that is none of loss_names(), with the list.
std::unique_ptr<Loss> make_loss(std::string_view name, const LossOptions& options = {});

/// The place of the first label of a valid slot outside [0, num_classes) that is not `ignore`; what
/// evaluate() refuses. Every slot has as many labels.
std::optional<std::size_t> first_bad_label(std::span<const std::int64_t> labels,
                                           std::span<const std::uint8_t> valid,
                                           std::int64_t num_classes,
                                           std::optional<std::int64_t> ignore = {});

}  // namespace millrace::trainer

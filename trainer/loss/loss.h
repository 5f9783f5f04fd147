// Losses: the value to minimise, and its gradient, over the valid slots of a batch.
//
// With several devices the loss is the mean over the valid slots of all of them, so a replica
// cannot divide by its own count: it gets `divisor`, the global number of valid slots, and scales
// the gradient by 1 / divisor. The sum of the replicas' gradients is then the mean's.
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

/// The target of a prediction; one of the two is empty.
struct Target {
  std::span<const std::int64_t> labels = {};  ///< class indices: (N), or of pixels (N, H, W)
  std::span<const float> values = {};         ///< the prediction's shape
};

struct LossInput {
  nn::OutputView prediction;  ///< (N, ...) logits or values
  Target target;
  std::span<const std::uint8_t> valid;  ///< (N); slots with 0 add nothing and have zero gradient
  double divisor = 1;                   ///< valid slots of the whole step, on all devices
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
  /// Throws: InvalidArgument for sizes that do not fit; Corrupt for a label outside the classes. A
  /// caller that has the sample's key calls first_bad_label() before.
  virtual LossSums evaluate(const LossInput& input) const = 0;
};

struct LossOptions {
  /// e: each class gets e / K of the target's weight. For both cross-entropies.
  float label_smoothing = 0;
  /// The label of pixels that do not count. This and the following: pixel_cross_entropy only.
  std::int64_t ignore_label = 255;
  /// Of each class; empty: all 1. Lifetime: make_loss() copies them.
  std::span<const float> class_weights = {};
  /// The weight of the softmax's Dice beside the cross-entropy.
  float dice = 0;
};

/// "bce", "berhu", "cross_entropy", "dice", "l1", "mse", "pixel_cross_entropy";
/// trainer/loss/detail/losses.h has the formulas.
std::vector<std::string_view> loss_names();

/// Throws: InvalidArgument for a name that is not in loss_names(), with the list, and for options
/// out of range.
std::unique_ptr<Loss> make_loss(std::string_view name, const LossOptions& options = {});

/// The index of the first label of a valid slot that is outside [0, num_classes) and not `ignore`,
/// which evaluate() refuses; nullopt if there is none. Requires: every slot has as many labels.
std::optional<std::size_t> first_bad_label(std::span<const std::int64_t> labels,
                                           std::span<const std::uint8_t> valid,
                                           std::int64_t num_classes,
                                           std::optional<std::int64_t> ignore = {});

}  // namespace millrace::trainer

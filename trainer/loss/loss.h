// Losses: the value to minimise, and its gradient, over the valid slots of a batch; which one is a
// component.
//
// With several devices the loss is the mean over the valid slots of all of them, so a replica
// cannot divide by its own count: it gets `divisor`, the global number of valid slots, and scales
// the gradient by 1 / divisor. The sum of the replicas' gradients is then the mean's.
//
//   const LossChoice choice = losses::CrossEntropy{.label_smoothing = 0.1F};
//   const auto loss = choice.make();
//   LossSums sums = loss->evaluate({.prediction = plan.output(0), .target = {.labels = labels},
//                                   .valid = batch.valid, .divisor = global_valid,
//                                   .gradient = plan.output_gradient(0)});
//
// To add one: a file here (slot_loss.h for a function of values), a line in the table of loss.cc;
// in another program a line in a copy of the table.
//
// Threads: evaluate() is const and may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "io/component/choice.h"
#include "trainer/nn/plan.h"

namespace millrace::trainer {

class Collectives;

namespace hlo {
struct LossArguments;
struct LossResults;
}  // namespace hlo

/// The target of a prediction; one of the two is empty.
struct Target {
  std::span<const std::int64_t> labels = {};  ///< class indices: (N), or of pixels (N, H, W)
  /// The prediction's shape. NaN: there is no value; it counts for nothing, and has zero gradient.
  std::span<const float> values = {};
  /// Of mixed samples (pipeline/mixup.h): each has a second label, and `shares` (N) is how much of
  /// the target is the first one's. Empty: the first one is all of it. For kClass.
  std::span<const std::int64_t> others = {};
  std::span<const float> shares = {};
};

struct LossInput {
  nn::OutputView prediction;  ///< (N, ...) logits or values
  Target target;
  std::span<const std::uint8_t> valid;  ///< (N); slots with 0 add nothing and have zero gradient
  double divisor = 1;                   ///< valid slots of the whole step, on all devices
  /// Overwritten with d (sum / divisor) / d prediction; empty in evaluation.
  std::span<float> gradient = {};
  /// With a gradient: the rank's, by which a loss that is_collective() compares slots with those of
  /// the other ranks. Null: with the batch's own alone.
  Collectives* group = nullptr;
};

/// Sums over the valid slots, to be added up over batches and devices before any division.
struct LossSums {
  double loss = 0;  ///< sum of the slots' losses
  std::int64_t num_valid = 0;
  std::int64_t top1 = 0;  ///< slots whose label has the largest logit; kClass and kSamples only
  std::int64_t top5 = 0;  ///< among the five largest

  LossSums& operator+=(const LossSums& other);
};

/// What a loss compares a prediction with; a caller checks it with the sample's key before.
enum class TargetKind {
  kClass,         ///< a label per slot; top1 and top5 are counted
  kSamples,       ///< which sample each slot is of: any number; top1 and top5 are counted
  kPixelClasses,  ///< a label per pixel
  kShares,        ///< values between 0 and 1
  kValues,        ///< finite values
};

class Loss {
 public:
  virtual ~Loss() = default;
  virtual TargetKind target() const = 0;
  /// Whether a target may be a mixture of two labels. Default: no.
  virtual bool takes_mixtures() const { return false; }
  /// Whether evaluate() is a collective of LossInput::group: then a rank without a sample calls it,
  /// too, without slots, for a loss of 0. Default: no.
  virtual bool is_collective() const { return false; }
  /// A label that does not count. Default: none.
  virtual std::optional<std::int64_t> ignored_label() const { return {}; }
  /// Throws: InvalidArgument for sizes that do not fit; Corrupt for a label outside the classes. A
  /// caller that has the sample's key calls first_bad_label() before.
  virtual LossSums evaluate(const LossInput& input) const = 0;
  /// The same in a compiled program (trainer/hlo/loss_program.h). Default: none; a backend that
  /// compiles its steps refuses the loss by its name.
  virtual std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const;
};

using LossChoice = Choice<Loss>;

/// As a field of another component.
const ValueType& value_type(const LossChoice& choice);

/// cross-entropy, class-bce, pixel-cross-entropy, bce, dice, bce-dice, tversky, l1, mse, rmse,
/// berhu, gradient, ssim, infonce, clip.
const TableOf<Loss>& standard_losses();

/// The index of the first label of a valid slot that is outside [0, num_classes) and not `ignore`,
/// which evaluate() refuses; nullopt if there is none. Requires: every slot has as many labels.
std::optional<std::size_t> first_bad_label(std::span<const std::int64_t> labels,
                                           std::span<const std::uint8_t> valid,
                                           std::int64_t num_classes,
                                           std::optional<std::int64_t> ignore = {});

}  // namespace millrace::trainer

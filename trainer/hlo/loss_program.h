// A loss in StableHLO: what Loss::stablehlo() takes and returns.
//
//   std::optional<hlo::LossResults> stablehlo(const hlo::LossArguments& of) const override {
//     const hlo::Tensor error = of.prediction - of.target;                  // (N, K)
//     return hlo::LossResults{.loss = hlo::sum(error * error, {1}),
//                             .gradient = [=] { return 2.0 * error; }};
//   }
//
// Slots without a sample, the divisor and a head's weight are the objective's. Most losses are of
// each slot alone; one that is_collective() compares slots with those of all replicas (in training;
// of its own batch in evaluation), and leaves those without a sample out by `valid`.
//
// Threads: as builder.h's.
#pragma once

#include <functional>
#include <optional>

#include "trainer/hlo/builder.h"

namespace millrace::trainer::hlo {

struct LossArguments {
  Tensor prediction;  ///< float32, (N, ...); images (N, C, H, W)
  /// Labels int32, (N) or (N, H, W); samples' numbers, int64 (N); or float32 values of the
  /// prediction's shape.
  Tensor target;
  Tensor valid = {};      ///< flags (N)
  bool training = false;  ///< a gradient is asked for
  /// Of a mixture: the other label, int32 (N), and how much of the target is the first one's,
  /// float32 (N).
  std::optional<Tensor> other = {};
  std::optional<Tensor> share = {};
};

struct LossResults {
  Tensor loss;  ///< float32, (N)
  /// d (the sum of the losses of all replicas' valid slots) / d prediction. Called at most once, in
  /// training.
  std::function<Tensor()> gradient;
  /// Flags (N) of a class per slot: whether its logit is the largest, and among the five largest.
  std::optional<Tensor> top1 = {};
  std::optional<Tensor> top5 = {};
};

/// A function of a value and its target, for all places at once.
using ValueFunction = std::function<Tensor(const Tensor&, const Tensor&)>;
/// Each slot's mean of `value`, over the values whose target is not NaN; `slope` is the derivative
/// by the prediction. A slot without any has loss 0.
LossResults mean_of_values(const LossArguments& of, const ValueFunction& value,
                           const ValueFunction& slope);

/// Flags of the values whose target is not NaN; the target with 0 for the others.
struct CountedTensor {
  Tensor flags;
  Tensor target;
  Tensor number;  ///< of each slot, at least 1: float32, (N)
};
CountedTensor counted(const Tensor& target);

/// `x` summed over all but its first dimension; and (N) to `shape`, whose first dimension is N.
Tensor sum_of_slots(const Tensor& x);
Tensor to_slots(const Tensor& x, const Shape& shape);

/// The softmax over dimension 1, and the logarithm of its denominator, without that dimension.
struct SoftmaxOfClasses {
  Tensor shares;
  Tensor log_sum;
};
SoftmaxOfClasses softmax_of_classes(const Tensor& logits);
/// `x` without dimension 1, along dimension 1 of `shape`.
Tensor to_classes(const Tensor& x, const Shape& shape);
/// Flags of `shape`: whether the index along dimension 1 is the label, int32 without that
/// dimension.
Tensor is_class(const Tensor& labels, const Shape& shape);

}  // namespace millrace::trainer::hlo

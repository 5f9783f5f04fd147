// An update rule in StableHLO: what UpdateRule::stablehlo() takes and returns, for one parameter.
//
//   std::optional<hlo::RuleResults> stablehlo(const hlo::RuleArguments& of) const override {
//     return hlo::RuleResults{.weight = of.weight - of.lr * of.gradient};
//   }
//
// Threads: as builder.h's.
#pragma once

#include <vector>

#include "trainer/hlo/builder.h"

namespace millrace::trainer::hlo {

/// All float32 but `step`.
struct RuleArguments {
  Tensor weight;
  Tensor gradient;                  ///< of the mean over the step's samples, clipped
  std::vector<Tensor> states = {};  ///< in the order of UpdateRule::state_names()
  Tensor lr;    ///< without dimensions; times the factor of the parameter's group
  Tensor step;  ///< without dimensions, int32: as RuleStep's
  float weight_decay = 0.0F;
  bool has_own_rate = false;  ///< of a rule with uses_norms(): its rate depends on its norms
};

struct RuleResults {
  Tensor weight;
  std::vector<Tensor> states = {};
};

/// gradient + weight_decay * weight.
Tensor decayed_gradient(const RuleArguments& of);
/// weight * (1 - lr * weight_decay).
Tensor decayed_weight(const RuleArguments& of);

/// keep * old + (1 - keep) * now.
Tensor moving_mean(const Tensor& old, const Tensor& now, float keep);
/// 1 - keep^step, to float32's precision for the first steps too.
Tensor bias_of_mean(const Tensor& step, float keep);
/// Euclidean, without dimensions.
Tensor norm(const Tensor& x);
/// factor * over / under, of norms; 1 where one of them is zero.
Tensor ratio_or_one(const Tensor& over, const Tensor& under, double factor = 1.0);

}  // namespace millrace::trainer::hlo

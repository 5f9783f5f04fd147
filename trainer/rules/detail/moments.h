// What Adam, AdamW and LAMB have in common: the means of gradients and of their squares, and the
// options that these have.
//
// Threads: as UpdateRule.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "trainer/hlo/operations.h"
#include "trainer/hlo/rule_program.h"
#include "trainer/update_rule.h"

namespace millrace::trainer::detail {

/// Throws: InvalidArgument unless there are two.
inline void check_betas(const std::vector<float>& betas) {
  require(betas.size() == 2, "betas are two, such as [0.9, 0.999]");
}

/// `lr`: the sentence of the learning rate, with its default.
template <typename Options>
void list_moments(Options& options, FieldList& field, const char* lr) {
  field("lr", options.lr, {.min = 0, .open_min = true}, lr);
  field.by_name();
  field("betas", options.betas, {.min = 0, .max = 1, .open_max = true},
        "Decay of the mean of gradients, and of their squares");
  field("eps", options.eps, {.min = 0, .open_min = true}, "Added outside the root");
  list_decay_and_groups(field, options.weight_decay, options.groups);
}

class MomentsRule : public UpdateRule {
 public:
  template <typename Options>
  MomentsRule(const Options& options, const RuleDefaults& usual)
      : UpdateRule({.lr = options.lr,
                    .weight_decay = options.weight_decay,
                    .groups = options.groups,
                    .usual = usual}),
        beta1_(options.betas[0]),
        beta2_(options.betas[1]),
        epsilon_(options.eps) {}

  std::vector<std::string> state_names() const final { return {"exp_avg", "exp_avg_sq"}; }

 protected:
  /// In a step, from 1: 1 - beta^step of each.
  double bias1(std::int64_t step) const { return bias_of(beta1_, step); }
  float inverse_root_bias2(std::int64_t step) const {
    return static_cast<float>(1.0 / std::sqrt(bias_of(beta2_, step)));
  }

  struct Program {
    hlo::Tensor mean;
    hlo::Tensor square;
    hlo::Tensor bias1;
    hlo::Tensor under;  ///< of the mean: the root of the square without its bias, and epsilon
  };
  Program program(const hlo::RuleArguments& of, const hlo::Tensor& gradient) const {
    const hlo::Tensor mean = hlo::moving_mean(of.states[0], gradient, beta1_);
    const hlo::Tensor square = hlo::moving_mean(of.states[1], gradient * gradient, beta2_);
    const hlo::Tensor root = hlo::sqrt(square) * hlo::rsqrt(hlo::bias_of_mean(of.step, beta2_));
    return {.mean = mean,
            .square = square,
            .bias1 = hlo::bias_of_mean(of.step, beta1_),
            .under = root + static_cast<double>(epsilon_)};
  }

  float beta1_;
  float beta2_;
  float epsilon_;

 private:
  static double bias_of(float keep, std::int64_t step) {
    return 1.0 - std::pow(static_cast<double>(keep), static_cast<double>(step));
  }
};

}  // namespace millrace::trainer::detail

// UpdateRule: how an optimizer changes weights; which one, and its parameters, is a component.
//
// A rule works on flat runs of floats in the host's memory: the Optimizer cuts the model's buffers
// into runs with the same decay and rate.
//
//   const Rule rule = AdamW{.lr = 1e-3, .groups = {{.parameters = "fc.", .rate = 10}}};
//   rule.make()->apply({.lr = 1e-3F, .step = 1}, {.weights = w, .gradients = g, .states = states});
//
// To add one, here: a file pair in rules/, a line in the table of update_rule.cc. In another
// program (tests/install/user_project/own_rule.cc): a struct, and a line in a copy of the table.
//
// Threads: const, from many threads at once for buffers that do not overlap.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/component/choice.h"
#include "trainer/parameters.h"

namespace millrace::trainer {

namespace hlo {
struct RuleArguments;
struct RuleResults;
}  // namespace hlo

/// What some parameters have otherwise. The first group that a parameter is in counts.
struct ParameterGroup {
  /// "norms-biases" (Parameter::decay false), a beginning of names: "fc.", or a pattern: "*.bn?.*".
  std::string parameters = {};
  double rate = 1.0;  ///< factor of the learning rate
  std::optional<float> weight_decay = {};
  /// Steps of the whole run between which they train: frozen in the first `after`, and behind the
  /// `until`th; 0: to the end.
  std::int64_t after = 0;
  std::int64_t until = 0;
  /// Their rate falls from the run's (times `rate`) linearly to 0 behind `until`; the schedule does
  /// not change it. Requires: `until`.
  bool falls = false;

  static const ComponentName kName;
  void fields(FieldList& field);
  /// Throws: InvalidArgument without parameters, or for steps that are none.
  void check() const;
  bool has(const Parameter& parameter) const;
};

/// A rule's advice where the user does not say.
struct RuleDefaults {
  double lr = 0.1;
  /// Of a model without batch norms, whose losses are steeper; 0: the same.
  double lr_without_norms = 0;
  /// The global batch size that `lr` is for; smaller ones get a proportion of it. 0: any size.
  std::int64_t lr_batch = 0;
  std::int64_t warmup_steps = 0;

  double lr_of(bool has_norms) const;
};

/// What all rules have. The rule's struct lists lr, weight_decay and groups among its fields.
struct RuleSettings {
  std::optional<double> lr = {};
  float weight_decay = 0.0F;
  std::vector<ParameterGroup> groups = {};
  RuleDefaults usual = {};

  /// The learning rate of steps of so many samples; 0: unknown. `has_norms`: batch norms.
  double lr_for(std::int64_t step_samples, bool has_norms = true) const;
};

/// A step's numbers, the same on all replicas.
struct StepNumbers {
  float lr = 0.0F;        ///< the schedule's
  std::int64_t step = 1;  ///< from 1, over the whole run
  float base_lr = 0.0F;   ///< the run's, which a schedule begins with; 0: as `lr`
  /// Of the steps before, those that changed nothing (StepOutcome::changes()).
  std::int64_t skipped = 0;

  float unscheduled_lr() const { return base_lr > 0.0F ? base_lr : lr; }
};

/// Of one parameter, by its group.
struct ParameterSettings {
  float rate = 1.0F;  ///< factor of the learning rate
  float weight_decay = 0.0F;
  std::int64_t after = 0;  ///< as ParameterGroup's
  std::int64_t until = 0;
  bool falls = false;

  /// The factor in a step, from 1: 0 where the group is frozen. Of the run's rate if it falls, else
  /// of the schedule's.
  float rate_at(std::int64_t step) const {
    if (step <= after || is_over(step)) return 0.0F;
    return falls ? rate * share_left(step) : rate;
  }
  /// The learning rate in a step.
  float lr_at(const StepNumbers& numbers) const {
    return (falls ? numbers.unscheduled_lr() : numbers.lr) * rate_at(numbers.step);
  }
  /// Whether the group never trains again. Its state is left as it is then: with a rate of 0 a
  /// momentum that has the rate in it would go on moving the weights.
  bool is_over(std::int64_t step) const { return until > 0 && step > until; }
  bool operator==(const ParameterSettings&) const = default;

 private:
  float share_left(std::int64_t step) const {
    return static_cast<float>(until + 1 - step) / static_cast<float>(until - after);
  }
};
ParameterSettings settings_for(const Parameter& parameter, const RuleSettings& rule);
/// Whether a group's rate falls by itself: then steps need StepNumbers::base_lr.
bool has_falling_group(const RuleSettings& rule);

/// One step's numbers for a run of floats.
struct RuleStep {
  float lr = 0.0F;              ///< times the parameter's rate_factor()
  float gradient_scale = 1.0F;  ///< factor of the gradients
  float weight_decay = 0.0F;    ///< of this run
  /// From 1, over the whole run: of those that changed the weights, as torch.optim counts calls.
  std::int64_t step = 1;
};

/// A run of floats: equally long spans, of any length.
struct RuleBuffers {
  std::span<float> weights;
  std::span<const float> gradients;
  std::span<const std::span<float>> states = {};  ///< in the order of state_names()
};

/// Euclidean norms of one parameter, and its decay.
struct ParameterNorms {
  double weights = 0;
  double direction = 0;  ///< of what UpdateRule::square_sum() is of
  double weight_decay = 0;
};

class UpdateRule {
 public:
  explicit UpdateRule(RuleSettings settings) : settings_(std::move(settings)) {}
  virtual ~UpdateRule() = default;

  const RuleSettings& settings() const { return settings_; }
  /// The state buffers' names as torch.optim has them: "momentum_buffer", "exp_avg", "exp_avg_sq".
  /// All start as zeros.
  virtual std::vector<std::string> state_names() const = 0;
  /// Changes weights and state. Each float's result depends on its own numbers alone.
  virtual void apply(const RuleStep& step, const RuleBuffers& buffers) const = 0;

  /// The same for one parameter in a compiled program (trainer/hlo/rule_program.h). Default: none;
  /// a backend that compiles its steps refuses the rule by its name.
  virtual std::optional<hlo::RuleResults> stablehlo(const hlo::RuleArguments& of) const;

  /// Whether each parameter's rate depends on its norms. Biases and norms keep the plain rate.
  virtual bool uses_norms() const { return false; }
  /// The sum of squares, over a run, whose root over a parameter is ParameterNorms::direction;
  /// called before apply(), with its buffers and the rate without the factor. Default: of the
  /// scaled gradients.
  virtual double square_sum(const RuleStep& step, const RuleBuffers& buffers) const;
  /// The factor of a parameter's rate. Called only if uses_norms().
  virtual float rate_factor(const ParameterNorms& norms) const;

 private:
  RuleSettings settings_;
};

using Rule = Choice<UpdateRule>;

/// sgd, adam, adamw, lion, lars, lamb, muon. A program copies the table and adds its own.
const TableOf<UpdateRule>& standard_rules();

/// For the lists of rules: the last fields, by name.
void list_decay_and_groups(FieldList& field, float& weight_decay,
                           std::vector<ParameterGroup>& groups);

}  // namespace millrace::trainer

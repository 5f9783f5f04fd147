// UpdateRule: how an optimizer changes weights; one class per rule, found by name in a table.
//
// A rule works on flat runs of floats in the host's memory: the Optimizer cuts the model's buffers
// into runs with the same decay and rate.
//
//   const std::unique_ptr<UpdateRule> rule = make_update_rule({.rule = "adam"});
//   rule->apply({.lr = 1e-3F, .step = 1}, {.weights = w, .gradients = g, .states = states});
//
// To add one, here: a file in rules/, a line in the table of update_rule.cc. In another program
// (tests/install/user_project/own_rule.cc): an entry in a copy of the table, passed with the options:
//
//   UpdateRuleTable rules = *standard_update_rules();
//   rules.add({.name = "signum", .make = make_signum});
//   options.optimizer = {.rule = "signum",
//                        .rules = std::make_shared<const UpdateRuleTable>(std::move(rules))};
//
// Threads: const, from many threads at once for buffers that do not overlap.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::trainer {

class UpdateRuleTable;

struct OptimizerOptions {
  /// A name in `rules`.
  std::string rule = "sgd";
  /// Null: standard_update_rules().
  std::shared_ptr<const UpdateRuleTable> rules = {};
  /// SGD and LARS: buf = momentum * buf + (1 - dampening) * g; the first step's buf is g.
  float momentum = 0.0F;
  float dampening = 0.0F;
  /// SGD: steps along g + momentum * buf.
  bool nesterov = false;
  /// SGD, Adam, LARS: g += weight_decay * w. AdamW: w *= 1 - lr * weight_decay.
  float weight_decay = 0.0F;
  /// Adam, AdamW.
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  /// Adam, AdamW: added outside the root.
  float epsilon = 1e-8F;
  /// LARS: the layer's rate is lr * trust * |w| / (|g| + weight_decay * |w|).
  float trust = 0.001F;
  /// Leaves biases and norms (Parameter::decay false) without weight decay.
  bool no_decay_on_biases_and_norms = false;
  /// Rounds weights and state to bf16 values after each update (precision bf16-true).
  bool round_to_bf16 = false;
};

/// A rule's default hyperparameters.
struct RuleDefaults {
  double lr = 0.1;
  /// The global batch size that `lr` is for; smaller ones get a proportion of it. 0: any size.
  std::int64_t lr_batch = 0;
  std::int64_t warmup_steps = 0;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
};

/// One step's numbers for a run of floats.
struct RuleStep {
  float lr = 0.0F;              ///< times the parameter's rate_factor()
  float gradient_scale = 1.0F;  ///< factor of the gradients
  float weight_decay = 0.0F;    ///< of this run
  std::int64_t step = 1;        ///< from 1, over the whole run
};

/// A run of floats: equally long spans, of any length.
struct RuleBuffers {
  std::span<float> weights;
  std::span<const float> gradients;
  std::span<const std::span<float>> states = {};  ///< in the order of state_names()
};

/// Euclidean norms of one parameter's weights and scaled gradient, and its decay.
struct ParameterNorms {
  double weights = 0;
  double gradient = 0;
  double weight_decay = 0;
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;

  /// The state buffers' names as torch.optim has them: "momentum_buffer", "exp_avg", "exp_avg_sq".
  /// All start as zeros.
  virtual std::vector<std::string> state_names() const = 0;
  /// Changes weights and state. Each float's result depends on its own numbers alone.
  virtual void apply(const RuleStep& step, const RuleBuffers& buffers) const = 0;

  /// Whether each parameter's rate depends on its norms. Biases and norms keep the plain rate.
  virtual bool uses_norms() const { return false; }
  /// The factor of a parameter's rate. Called only if uses_norms().
  virtual float rate_factor(const ParameterNorms& norms) const;
};

/// A rule's name, its defaults, and its factory function.
struct UpdateRuleEntry {
  std::string name;
  RuleDefaults defaults = {};
  /// Throws: InvalidArgument for options that contradict each other.
  std::function<std::unique_ptr<UpdateRule>(const OptimizerOptions&)> make;
};

class UpdateRuleTable {
 public:
  /// Throws: InvalidArgument for an entry without a name or `make`, and for a name that the table
  /// has.
  void add(UpdateRuleEntry entry);

  std::vector<std::string> names() const;
  /// Throws: InvalidArgument for a name that is not in the table, with the list. Lifetime: until
  /// add().
  const UpdateRuleEntry& at(std::string_view name) const;

 private:
  std::vector<UpdateRuleEntry> entries_;
};

/// "sgd", "adam", "adamw", "lars". Never null.
const std::shared_ptr<const UpdateRuleTable>& standard_update_rules();

/// The rule called options.rule. Throws: as UpdateRuleTable::at(); InvalidArgument for options that
/// contradict each other.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options);

}  // namespace millrace::trainer

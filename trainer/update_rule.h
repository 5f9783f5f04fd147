// UpdateRule: how an optimizer changes weights, one object a rule, found by name in one table.
//
// A rule sees flat runs of floats: the Optimizer cuts the model's buffers into runs whose
// parameters are treated alike, and owns the state. To add a rule: one file in rules/, one line in
// the table of update_rule.cc.
//
//   const std::unique_ptr<UpdateRule> rule = make_update_rule({.rule = "adam"});
//   rule->apply({.lr = 1e-3F, .step = 1}, {.weights = w, .gradients = g, .states = states});
//
// Threads: const, from many threads at once for buffers that do not overlap.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::trainer {

struct OptimizerOptions {
  /// One of update_rule_names().
  std::string rule = "sgd";
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

/// What a rule is used with where its user says nothing.
struct RuleDefaults {
  double lr = 0.1;
  /// The global batch from which on `lr` holds; a smaller one takes it in proportion. 0: any batch.
  std::int64_t lr_batch = 0;
  std::int64_t warmup_steps = 0;
  float momentum = 0.0F;
  float weight_decay = 0.0F;
};

/// One step's numbers for a run of floats.
struct RuleStep {
  float lr = 0.0F;              ///< with the parameter's rate_factor()
  float gradient_scale = 1.0F;  ///< gradients count times this
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

  /// Whether each parameter's rate goes by its norms, biases and norms excepted.
  virtual bool uses_norms() const { return false; }
  /// What the rate of a parameter is multiplied by. Called only where uses_norms().
  virtual float rate_factor(const ParameterNorms& norms) const;
};

/// "sgd", "adam", "adamw", "lars".
std::vector<std::string> update_rule_names();
/// Throws: InvalidArgument for a name that is none of update_rule_names(), with the list.
RuleDefaults update_rule_defaults(std::string_view name);
/// Throws: InvalidArgument, also for options that contradict each other.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options);

}  // namespace millrace::trainer

// A step of training as one module.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include "io/base/error.h"
#include "trainer/hlo/detail/program_builder.h"
#include "trainer/hlo/rule_program.h"

namespace millrace::trainer::hlo {
namespace {

/// bf16-true's: as a value, which compilers may not leave out as they may a conversion.
Tensor rounded_to_bf16(const Tensor& x) {
  return x.builder->define(
      x.type, x.shape,
      "stablehlo.reduce_precision " + x.name + ", format = e8m7 : " + x.type_text());
}

class StepProgram {
 public:
  StepProgram(const ProgramSetup& setup, const StepProgramOptions& options)
      : options_(options),
        rule_(options.optimizer.rule.make()),
        program_(setup, "step"),
        builder_(program_.builder()) {}

  Program make() {
    take();
    compute();
    reduce();
    check_finite();
    clip();
    update();
    give();
    return program_.finish();
  }

 private:
  void take() {
    weights_ = program_.take_parameters(Role::kWeight);
    for (const std::string& state : rule_->state_names())
      states_.push_back(program_.take_parameters(Role::kState, state));
    if (options_.ema_decay) ema_ = program_.take_parameters(Role::kEma);
    buffers_ = program_.take_buffers();
    inputs_ = program_.take_inputs();
    targets_ = program_.take_targets();
    valid_ = program_.take_valid();
    lr_ = program_.take({.name = "lr", .role = Role::kLearningRate});
    step_ = program_.take({.name = "step", .role = Role::kStep, .type = Type::kInt32});
    num_valid_ = program_.take({.name = "num_valid", .role = Role::kNumValid});
    const Tensor key = program_.take(
        {.name = "random_key", .role = Role::kRandomKey, .type = Type::kUint64, .shape = {4}});
    const Scope scope(builder_, "random_key");
    const auto part = [&](std::int64_t i) { return reshape(slice(key, 0, i, i + 1), {}); };
    key_ = {part(0), part(1), part(2), part(3)};
  }

  /// Forward, losses, backward, of this replica.
  void compute() {
    GraphProgram graph = program_.run({.weights = weights_,
                                       .buffers = buffers_,
                                       .inputs = inputs_,
                                       .training = true,
                                       .key = key_});
    std::vector<std::optional<Tensor>> incoming;
    {
      const Scope scope(builder_, "loss");
      samples_ = number_of(valid_);
      const ScoreResults score = program_.score({.outputs = graph.outputs(),
                                                 .targets = targets_,
                                                 .valid = valid_,
                                                 .divisor = max(num_valid_, 1.0),
                                                 .gradients = true});
      sums_ = marked(score.sums, graph.outputs());
      incoming = score.gradients;
    }
    new_buffers_ = graph.buffers();
    const auto found = graph.backward(incoming);
    const auto& entries = program_.graph().parameters().entries();
    const Scope scope(builder_, "gradients");
    for (std::size_t i = 0; i < entries.size(); ++i)
      gradients_.push_back(found[i] ? *found[i]
                                    : splat(builder_, 0, Type::kFloat32, entries[i].shape));
  }

  /// An output of a valid slot that is not finite makes the loss NaN, whatever the loss says.
  Tensor marked(const Tensor& sums, const std::vector<Tensor>& outputs) const {
    const Tensor bad = number_of(both(non_finite_slots(outputs), valid_));
    const Tensor mark = select(compare(bad, Order::kGreater, 0.0),
                               scalar(builder_, std::numeric_limits<double>::quiet_NaN()), 0.0);
    const Tensor first = compare(iota(builder_, Type::kInt32, sums.shape, 0), Order::kEqual, 0.0);
    return select(first, sums + mark, sums);
  }

  /// Sums over the replicas. One without a sample counts nowhere, in the buffers' mean neither.
  void reduce() {
    const Scope scope(builder_, "reduce");
    const Tensor has_sample = compare(samples_, Order::kGreater, 0.0);
    const auto counted = [&](const Tensor& x) {
      return builder_.replicas() == 1 ? x : select(has_sample, x, 0.0);
    };
    for (Tensor& gradient : gradients_) gradient = sum_over_replicas(counted(gradient));
    const Tensor own = sums_;
    sums_ = sum_over_replicas(counted(own));
    samples_ = sum_over_replicas(samples_);
    if (builder_.replicas() == 1 || new_buffers_.empty()) return;
    const Tensor replicas = max(sum_over_replicas(float32(has_sample)), 1.0);
    for (Tensor& buffer : new_buffers_) buffer = sum_over_replicas(counted(buffer)) / replicas;
  }

  void check_finite() {
    const Scope scope(builder_, "is_finite");
    std::vector<Tensor> flags = {is_finite(slice(sums_, 0, 0, 1))};
    for (const Tensor& gradient : gradients_)
      flags.push_back(reshape(all(is_finite(gradient), dimensions_of(gradient)), {1}));
    is_finite_ = computed_once(all(concatenate(flags, 0), {0}));
    const Tensor has_samples = compare(num_valid_, Order::kGreater, 0.0);
    changes_ = both(is_finite_, has_samples);
    is_finite_ = select(has_samples, is_finite_, splat(builder_, 1, Type::kPred, {}));
  }

  /// Values before the norm, as torch's clip_grad_value_ and clip_grad_norm_.
  void clip() {
    const Scope scope(builder_, "clip");
    const auto bound = static_cast<double>(options_.clip.value);
    if (bound > 0)
      for (Tensor& gradient : gradients_) gradient = max(min(gradient, bound), -bound);
    if (options_.clip.norm <= 0) return;
    std::vector<Tensor> squares;
    for (const Tensor& gradient : gradients_)
      squares.push_back(reshape(sum(gradient * gradient, dimensions_of(gradient)), {1}));
    const Tensor norm = computed_once(sqrt(sum(concatenate(squares, 0), {0})));
    is_finite_ = both(is_finite_, is_finite(norm));
    changes_ = both(changes_, is_finite_);
    const Tensor scale = select(compare(norm, Order::kGreater, options_.clip.norm),
                                options_.clip.norm / (norm + 1e-6), 1.0);
    for (Tensor& gradient : gradients_) gradient = gradient * scale;
  }

  void update() {
    const auto& entries = program_.graph().parameters().entries();
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Scope scope(builder_, layer_of(entries[i].name) + "/update");
      update(i, entries[i]);
    }
    const Scope scope(builder_, "buffers");
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      new_buffers_[i] = select(changes_, new_buffers_[i], buffers_[i]);
  }

  void update(std::size_t number, const Parameter& parameter) {
    const ParameterSettings settings = settings_for(parameter, rule_->settings());
    RuleArguments of{.weight = weights_[number],
                     .gradient = gradients_[number],
                     .lr = settings.rate == 1.0F ? lr_ : lr_ * static_cast<double>(settings.rate),
                     .step = step_,
                     .weight_decay = settings.weight_decay,
                     .has_own_rate = rule_->uses_norms() && parameter.decay};
    for (const auto& state : states_) of.states.push_back(state[number]);
    const auto results = rule_->stablehlo(of);
    if (!results)
      throw Error(ErrorCode::kUnsupported,
                  "update rule " + std::string(options_.optimizer.rule.type().name().word) +
                      " has no StableHLO");
    const auto kept = [&](const Tensor& next, const Tensor& before) {
      return select(changes_, options_.optimizer.round_to_bf16 ? rounded_to_bf16(next) : next,
                    before);
    };
    const Tensor weight = kept(results->weight, of.weight);
    for (std::size_t k = 0; k < states_.size(); ++k)
      states_[k][number] = kept(results->states.at(k), of.states[k]);
    if (options_.ema_decay) {
      const auto decay = static_cast<float>(*options_.ema_decay);
      const Tensor mean =
          ema_[number] * static_cast<double>(decay) + weight * static_cast<double>(1.0F - decay);
      ema_[number] = select(changes_, mean, ema_[number]);
    }
    weights_[number] = weight;
  }

  void give() {
    program_.replace_parameters(Role::kWeight, weights_);
    const std::vector<std::string> names = rule_->state_names();
    for (std::size_t k = 0; k < names.size(); ++k)
      program_.replace_parameters(Role::kState, states_[k], names[k]);
    if (options_.ema_decay) program_.replace_parameters(Role::kEma, ema_);
    program_.replace_buffers(new_buffers_);
    program_.give({.name = "sums", .role = Role::kSums}, sums_);
    program_.give({.name = "num_samples", .role = Role::kNumSamples}, samples_);
    program_.give({.name = "is_finite", .role = Role::kIsFinite}, is_finite_);
  }

  const StepProgramOptions& options_;
  std::unique_ptr<UpdateRule> rule_;
  ProgramBuilder program_;
  Builder& builder_;
  std::vector<Tensor> weights_, ema_, buffers_, new_buffers_, inputs_, gradients_;
  std::vector<std::vector<Tensor>> states_;  // by the rule's state, then by parameter
  std::map<std::string, Tensor> targets_;
  Tensor valid_, lr_, step_, num_valid_, samples_, sums_, is_finite_, changes_;
  RandomKey key_;
};

}  // namespace

Program make_step_program(const ProgramSetup& setup, const StepProgramOptions& options) {
  return StepProgram(setup, options).make();
}

}  // namespace millrace::trainer::hlo

#include "trainer/hlo/detail/step_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "io/base/error.h"
#include "trainer/hlo/rule_program.h"

namespace millrace::trainer::hlo {
namespace {

/// bf16-true's: as a value, which compilers may not leave out as they may a conversion.
Tensor rounded_to_bf16(const Tensor& x) {
  return x.builder->define(
      x.type, x.shape,
      "stablehlo.reduce_precision " + x.name + ", format = e8m7 : " + x.type_text());
}

Tensor has_sample(const Tensor& samples) { return compare(samples, Order::kGreater, 0.0); }

}  // namespace

StepBuilder::StepBuilder(const ProgramSetup& setup, const StepProgramOptions& options,
                         std::string name)
    : options_(options),
      rule_(options.optimizer.rule.make()),
      program_(setup, std::move(name)),
      builder_(program_.builder()) {}

void StepBuilder::take_state() {
  weights_ = program_.take_parameters(Role::kWeight);
  for (const std::string& state : rule_->state_names())
    states_.push_back(program_.take_parameters(Role::kState, state));
  if (options_.ema_decay) ema_ = program_.take_parameters(Role::kEma);
  buffers_ = program_.take_buffers();
}

void StepBuilder::take_weights() {
  weights_ = program_.take_parameters(Role::kWeight);
  buffers_ = program_.take_buffers();
}

void StepBuilder::take_batch() {
  inputs_ = program_.take_inputs();
  targets_ = program_.take_targets(true);
  valid_ = program_.take_valid();
}

void StepBuilder::take_key() {
  const Tensor key = program_.take(
      {.name = "random_key", .role = Role::kRandomKey, .type = Type::kInt64, .shape = {4}});
  const Scope scope(builder_, "random_key");
  const Tensor bits = same_bits(key, Type::kUint64);
  const auto part = [&](std::int64_t i) { return reshape(slice(bits, 0, i, i + 1), {}); };
  key_ = {part(0), part(1), part(2), part(3)};
}

void StepBuilder::take_numbers() {
  lr_ = program_.take({.name = "lr", .role = Role::kLearningRate});
  if (has_falling_group(rule_->settings()))
    base_lr_ = program_.take({.name = "base_lr", .role = Role::kBaseRate});
  const Tensor step = program_.take({.name = "step", .role = Role::kStep, .type = Type::kInt64});
  skipped_ = program_.take({.name = "skipped", .role = Role::kSkipped, .type = Type::kInt64});
  num_valid_ = program_.take({.name = "num_valid", .role = Role::kNumValid});
  const Scope scope(builder_, "step");
  step_ = convert(step, Type::kInt32);
  rule_step_ = convert(step - skipped_, Type::kInt32);
}

void StepBuilder::take_accumulated() {
  before_ = program_.take_parameters(Role::kGradient);
  const auto sums = static_cast<std::int64_t>(program_.setup().objective.num_sums());
  sums_before_ = program_.take({.name = "sums", .role = Role::kSums, .shape = {sums}});
  samples_before_ = program_.take({.name = "num_samples", .role = Role::kNumSamples});
  divisor_ = program_.take({.name = "divisor", .role = Role::kDivisor});
  const Tensor first =
      program_.take({.name = "is_first", .role = Role::kIsFirst, .type = Type::kUint8});
  const Scope scope(builder_, "accumulate");
  is_first_ = compare(first, Order::kNotEqual, 0.0);
}

void StepBuilder::take_sums() {
  gradients_ = program_.take_parameters(Role::kGradient);
  const auto sums = static_cast<std::int64_t>(program_.setup().objective.num_sums());
  sums_ = program_.take({.name = "sums", .role = Role::kSums, .shape = {sums}});
  samples_ = program_.take({.name = "num_samples", .role = Role::kNumSamples});
  for (const Parameter& entry : program_.graph().buffers().entries())
    new_buffers_.push_back(
        program_.take({.name = entry.name, .role = Role::kNewBuffer, .shape = entry.shape}));
  divisor_ = program_.take({.name = "divisor", .role = Role::kDivisor});
}

void StepBuilder::compute(const Tensor& divisor) {
  GraphProgram graph = program_.run(
      {.weights = weights_, .buffers = buffers_, .inputs = inputs_, .training = true, .key = key_});
  std::vector<std::optional<Tensor>> incoming;
  {
    const Scope scope(builder_, "loss");
    samples_ = number_of(valid_);
    const ScoreResults score = program_.score({.outputs = graph.outputs(),
                                               .targets = targets_,
                                               .valid = valid_,
                                               .divisor = divisor,
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
Tensor StepBuilder::marked(const Tensor& sums, const std::vector<Tensor>& outputs) const {
  const Tensor bad = number_of(both(non_finite_slots(outputs), valid_));
  const Tensor mark = select(compare(bad, Order::kGreater, 0.0),
                             scalar(builder_, std::numeric_limits<double>::quiet_NaN()), 0.0);
  const Tensor first = compare(iota(builder_, Type::kInt32, sums.shape, 0), Order::kEqual, 0.0);
  return select(first, sums + mark, sums);
}

void StepBuilder::accumulate() {
  const Scope scope(builder_, "accumulate");
  const Tensor counts = has_sample(samples_);
  const auto sum = [&](const Tensor& before, const Tensor& more) {
    return select(is_first_, splat_like(before, 0), before) + select(counts, more, 0.0);
  };
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    gradients_[i] = sum(before_[i], gradients_[i]);
  sums_ = sum(sums_before_, sums_);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    new_buffers_[i] = select(counts, new_buffers_[i], buffers_[i]);
  samples_ = sum(samples_before_, samples_);
}

void StepBuilder::scale_sums() {
  const Scope scope(builder_, "gradients");
  const Tensor scale = computed_once(divisor_ / num_valid());
  for (Tensor& gradient : gradients_) gradient = gradient * scale;
}

/// Zeros of a replica without a sample.
Tensor StepBuilder::counted(const Tensor& x) const {
  return builder_.replicas() == 1 ? x : select(has_sample(samples_), x, 0.0);
}

void StepBuilder::reduce() {
  const Scope scope(builder_, "reduce");
  for (Tensor& gradient : gradients_) gradient = sum_over_replicas(counted(gradient));
  sums_ = sum_over_replicas(counted(sums_));
  if (builder_.replicas() > 1 && !new_buffers_.empty()) {
    const Tensor replicas = max(sum_over_replicas(float32(has_sample(samples_))), 1.0);
    for (Tensor& buffer : new_buffers_) buffer = sum_over_replicas(counted(buffer)) / replicas;
  }
  samples_ = sum_over_replicas(samples_);
}

void StepBuilder::check_finite() {
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
void StepBuilder::clip() {
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

void StepBuilder::update() {
  check_finite();
  clip();
  const auto& entries = program_.graph().parameters().entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Scope scope(builder_, layer_of(entries[i].name) + "/update");
    update(i, entries[i]);
  }
  const Scope scope(builder_, "buffers");
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    new_buffers_[i] = select(changes_, new_buffers_[i], buffers_[i]);
  skipped_ = select(changes_, skipped_, skipped_ + 1.0);
}

/// As ParameterSettings::share_left().
Tensor StepBuilder::share_left(const ParameterSettings& group) const {
  return (static_cast<double>(group.until + 1) - float32(step_)) *
         (1.0 / static_cast<double>(group.until - group.after));
}

/// The learning rate of a group, until it is over.
Tensor StepBuilder::rate_of(const ParameterSettings& group) const {
  const Tensor lr = group.falls ? base_lr_ * share_left(group) : lr_;
  const Tensor rate = group.rate == 1.0F ? lr : lr * static_cast<double>(group.rate);
  if (group.after == 0) return rate;
  return select(compare(step_, Order::kGreater, static_cast<double>(group.after)), rate, 0.0);
}

void StepBuilder::update(std::size_t number, const Parameter& parameter) {
  const ParameterSettings settings = settings_for(parameter, rule_->settings());
  RuleArguments of{.weight = weights_[number],
                   .gradient = gradients_[number],
                   .lr = rate_of(settings),
                   .step = rule_step_,
                   .weight_decay = settings.weight_decay,
                   .has_own_rate = rule_->uses_norms() && parameter.decay};
  for (const auto& state : states_) of.states.push_back(state[number]);
  const auto results = rule_->stablehlo(of);
  if (!results)
    throw Error(ErrorCode::kUnsupported,
                "update rule " + std::string(options_.optimizer.rule.type().name().word) +
                    " has no StableHLO");
  const Tensor moves = settings.until == 0
                           ? changes_
                           : both(changes_, compare(step_, Order::kLessOrEqual,
                                                    static_cast<double>(settings.until)));
  const auto kept = [&](const Tensor& next, const Tensor& before) {
    return select(moves, options_.optimizer.round_to_bf16 ? rounded_to_bf16(next) : next, before);
  };
  const auto& bounds = parameter.bounds;
  const Tensor next = bounds ? max(min(results->weight, static_cast<double>(bounds->most)),
                                   static_cast<double>(bounds->least))
                             : results->weight;
  const Tensor weight = kept(next, of.weight);
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

Program StepBuilder::finish_step() {
  program_.replace_parameters(Role::kWeight, weights_);
  const std::vector<std::string> names = rule_->state_names();
  for (std::size_t k = 0; k < names.size(); ++k)
    program_.replace_parameters(Role::kState, states_[k], names[k]);
  if (options_.ema_decay) program_.replace_parameters(Role::kEma, ema_);
  program_.replace_buffers(new_buffers_);
  program_.give({.name = "sums", .role = Role::kSums}, sums_);
  program_.give({.name = "num_samples", .role = Role::kNumSamples}, samples_);
  program_.give({.name = "is_finite", .role = Role::kIsFinite}, is_finite_);
  program_.give({.name = "skipped", .role = Role::kSkipped, .type = Type::kInt64}, skipped_);
  return program_.finish();
}

Program StepBuilder::finish_accumulation() {
  program_.replace_parameters(Role::kGradient, gradients_);
  program_.replace({.name = "sums", .role = Role::kSums}, sums_);
  program_.replace({.name = "num_samples", .role = Role::kNumSamples}, samples_);
  const auto& buffers = program_.graph().buffers().entries();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    program_.give({.name = buffers[i].name, .role = Role::kNewBuffer}, new_buffers_[i]);
  return program_.finish();
}

}  // namespace millrace::trainer::hlo

#include "tools/train/optimisation_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/option_settings.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

/// PyTorch's names.
const ValueAliases kSchedules = {{"ConstantLR", "constant"},
                                 {"none", "constant"},
                                 {"StepLR", "step"},
                                 {"MultiStepLR", "multi-step"},
                                 {"ExponentialLR", "exponential"},
                                 {"OneCycleLR", "one-cycle"},
                                 {"CosineAnnealingLR", "cosine"},
                                 {"CosineAnnealing", "cosine"}};

/// A default warm-up takes at most this fraction of a run.
constexpr std::int64_t kWarmupShare = 10;
/// With fewer steps sgd is hardly better than chance (docs/decisions.md has the table).
constexpr std::int64_t kFewSteps = 50;

/// The default rate of each rule.
std::string rates_text() {
  std::string text;
  for (const std::string &rule : trainer::standard_update_rules()->names()) {
    const trainer::RuleDefaults defaults = trainer::standard_update_rules()->at(rule).defaults;
    text += fmt::format("{}{}: {:g}", text.empty() ? "" : ", ", rule, defaults.lr);
    if (defaults.lr_batch > 0)
      text += fmt::format(" from {} samples per step on", defaults.lr_batch);
  }
  return "Learning rate [" + text + "; less in proportion for smaller steps]";
}

// Whether the schedule has one rate per step, as cycles require.
bool is_per_step(const OptimisationOptions &options) {
  if (!options.schedule_unit.empty()) return options.schedule_unit == "step";
  return options.schedule == "one-cycle";
}

}  // namespace

void OptimisationOptions::declare(CLI::App &app) {
  app.option_defaults()->group("Optimisation");
  declare_optimizer(app);
  declare_step(app);
  app.option_defaults()->group("Learning rate");
  declare_schedule(app);
}

void OptimisationOptions::declare_optimizer(CLI::App &app) {
  app.add_option("--epochs", epochs, "Passes over the samples")
      ->transform(whole_number(1, 1 << 20))
      ->check(may_change());
  app.add_option("--optimizer", optimizer, "The update rule of the weights")
      ->transform(one_of(trainer::standard_update_rules()->names()));
  app.add_option("--momentum", momentum, "Momentum of sgd and lars [0.9]")
      ->default_function([this] {
        return defaults().momentum > 0.0F ? fmt::format("{}", optimizer_options().momentum) : "";
      })
      ->transform(real_number(0, 1))
      ->check(may_change());
  app.add_option("--dampening", dampening, "Dampening of sgd's momentum")
      ->transform(real_number(0, 1))
      ->check(may_change());
  app.add_flag("--nesterov", nesterov, "sgd: use Nesterov momentum")->check(may_change());
  app.add_option("--betas", betas, "Betas of adam and adamw")
      ->delimiter(',')
      ->expected(2)
      ->transform(real_number(0, 1))
      ->check(may_change());
  app.add_option("--epsilon", epsilon, "Epsilon of adam and adamw")
      ->transform(above_zero())
      ->check(may_change());
  app.add_option("--trust", trust, "Trust coefficient of lars")
      ->transform(above_zero())
      ->check(may_change());
  app.add_option("--weight-decay", weight_decay,
                 "adamw: decoupled; others: added to gradients [adamw: 0.01, "
                 "others: 0]")
      ->default_function([this] { return fmt::format("{}", optimizer_options().weight_decay); })
      ->transform(real_number(0))
      ->check(may_change());
  app.add_flag("--no-decay-norms-biases", no_decay_norms_biases,
               "Exclude biases and normalisation from weight decay")
      ->check(may_change());
}

void OptimisationOptions::declare_step(CLI::App &app) {
  app.add_option("--accumulate", accumulate, "Batches per device to accumulate for one step")
      ->transform(whole_number(1, 1 << 20))
      ->check(may_change());
  app.add_option("--clip-norm", clip.norm, "Clip the norm of the gradients to this; 0: off")
      ->transform(real_number(0))
      ->check(may_change());
  app.add_option("--clip-value", clip.value, "Clip each gradient to this; 0: off")
      ->transform(real_number(0))
      ->check(may_change());
  app.add_option("--ema", ema,
                 "Decay of an exponential moving average of the weights, which is evaluated and "
                 "saved; 0: off")
      ->transform(real_number(0, 1))
      ->check(may_change());
  app.add_option("--on-non-finite", on_non_finite,
                 "What to do when outputs, loss or gradients are not finite: fail; skip the step, "
                 "or leave out the evaluation's measures")
      ->transform(one_of({"fail", "skip"}))
      ->check(may_change());
}

void OptimisationOptions::declare_schedule(CLI::App &app) {
  app.add_option("--lr", lr, rates_text())
      ->default_function([this] { return fmt::format("{}", chosen_lr()); })
      ->transform(above_zero())
      ->check(may_change());
  app.add_flag("--scale-lr", scale_lr, "Multiply --lr by the number of devices")
      ->check(may_change());
  app.add_option("--schedule", schedule, "The schedule of the learning rate")
      ->transform(one_of({"constant", "step", "multi-step", "exponential", "warmup-exponential",
                          "cosine", "one-cycle"},
                         kSchedules))
      ->check(may_change());
  app.add_option(
         "--schedule-unit", schedule_unit,
         "Whether the rate changes with each epoch or each step [one-cycle: step, others: epoch]")
      ->default_function([this] { return is_per_step(*this) ? "step" : "epoch"; })
      ->transform(one_of({"epoch", "step"}))
      ->check(may_change());
  app.add_option("--step-epochs", step_epochs, "step, warmup-exponential: epochs between two drops")
      ->transform(whole_number(1, 1 << 20))
      ->check(may_change());
  app.add_option("--gamma", gamma, "step, multi-step, exponential: factor of the rate")
      ->transform(above_zero())
      ->check(may_change());
  app.add_option("--divisor", divisor, "warmup-exponential: divisor of the rate")
      ->transform(above_zero())
      ->check(may_change());
  app.add_option("--milestones", milestones, "multi-step: epochs of the drops, such as 30,60,80")
      ->delimiter(',')
      ->transform(above_zero())
      ->check(may_change());
  app.add_option("--min-lr", min_lr, "cosine: the final rate")
      ->transform(real_number(0))
      ->check(may_change());
  app.add_option("--warmup-epochs", warmup_epochs,
                 "Epochs in which the rate rises from 0 [warmup-exponential: 0.9]")
      ->transform(real_number(0))
      ->check(may_change());
  app.add_option("--warmup-steps", warmup_steps,
                 "The same in steps; 0: no warm-up [sgd, lars: 100, or a tenth of a shorter run]")
      ->default_function([this] { return fmt::format("{}", chosen_warmup_steps()); })
      ->transform(whole_number(0))
      ->check(may_change());
  app.add_option("--warmup-start", warmup_start,
                 "Where the warm-up starts, as a fraction of the rate")
      ->transform(real_number(0, 1))
      ->check(may_change());
  app.add_option("--steps-per-epoch", steps_per_epoch,
                 "Steps in an epoch, for warm-up and schedules by step; 0: from the shards' "
                 "indexes, else counted")
      ->transform(whole_number(0))
      ->check(may_change());
}

void OptimisationOptions::check() const {
  const bool sgd = optimizer == "sgd";
  require(!nesterov || (sgd && momentum.value_or(defaults().momentum) > 0.0F && dampening == 0.0F),
          "--nesterov needs sgd with momentum and without dampening");
  require(dampening == 0.0F || sgd, "--dampening is sgd's");
  require(!momentum || defaults().momentum > 0.0F,
          "--momentum is of sgd and lars, not " + optimizer);
  require(!momentum || *momentum < 1.0F, "--momentum must be below 1");
  require(betas[0] < 1.0F && betas[1] < 1.0F, "--betas must be below 1");
  require(ema < 1.0, "--ema must be below 1");
  require(!scale_lr || lr,
          "--scale-lr needs --lr: the default rate already depends on the samples in a step");
  require(milestones.empty() || schedule == "multi-step",
          "--milestones needs --schedule multi-step");
  require(!milestones.empty() || schedule != "multi-step",
          "--schedule multi-step needs --milestones");
  require(schedule != "one-cycle" || (warmup_epochs == 0.0 && chosen_warmup_steps() == 0),
          "one-cycle warms up by itself: leave out --warmup-epochs and "
          "--warmup-steps");
  static_cast<void>(trainer::Schedule(schedule_options()));
}

void OptimisationOptions::settle(std::int64_t step_samples, std::int64_t run_steps) {
  step_samples_ = step_samples;
  run_steps_ = run_steps;
}

trainer::RuleDefaults OptimisationOptions::defaults() const {
  return trainer::standard_update_rules()->at(optimizer).defaults;
}

double OptimisationOptions::chosen_lr() const {
  if (lr) return *lr;
  const trainer::RuleDefaults rule = defaults();
  const bool smaller = step_samples_ > 0 && step_samples_ < rule.lr_batch;
  return smaller ? rule.lr * static_cast<double>(step_samples_) / static_cast<double>(rule.lr_batch)
                 : rule.lr;
}

bool OptimisationOptions::has_default_warmup() const {
  const bool rises = schedule == "one-cycle" || schedule == "warmup-exponential";
  return !warmup_steps && !rises && warmup_epochs == 0.0 && defaults().warmup_steps > 0;
}

std::int64_t OptimisationOptions::chosen_warmup_steps() const {
  if (!has_default_warmup()) return warmup_steps.value_or(0);
  const std::int64_t usual = defaults().warmup_steps;
  if (run_steps_ == 0) return usual;
  return std::min(usual, std::max<std::int64_t>(1, run_steps_ / kWarmupShare));
}

trainer::OptimizerOptions OptimisationOptions::optimizer_options() const {
  const trainer::RuleDefaults rule = defaults();
  return {.rule = optimizer,
          .momentum = momentum.value_or(rule.momentum),
          .dampening = dampening,
          .nesterov = nesterov,
          .weight_decay = weight_decay.value_or(rule.weight_decay),
          .beta1 = betas[0],
          .beta2 = betas[1],
          .epsilon = epsilon,
          .trust = trust,
          .no_decay_on_biases_and_norms = no_decay_norms_biases};
}

trainer::ScheduleOptions OptimisationOptions::schedule_options() const {
  return {.kind = trainer::parse_schedule_kind(schedule),
          .unit = is_per_step(*this) ? trainer::ScheduleUnit::kStep : trainer::ScheduleUnit::kEpoch,
          .base_lr = chosen_lr(),
          .epochs = static_cast<double>(epochs),
          .step_epochs = step_epochs,
          .gamma = gamma,
          .milestones = milestones,
          .divisor = divisor,
          .warmup_epochs = warmup_epochs,
          .warmup_steps = chosen_warmup_steps(),
          .warmup_start = warmup_start,
          .min_lr = min_lr};
}

bool OptimisationOptions::needs_steps_per_epoch() const {
  return trainer::Schedule(schedule_options()).needs_steps_per_epoch();
}

void OptimisationOptions::apply(trainer::TrainOptions &options) const {
  options.epochs = epochs;
  options.optimizer = optimizer_options();
  options.schedule = schedule_options();
  options.scale_lr = scale_lr;
  options.accumulate = accumulate;
  options.clip = clip;
  options.ema_decay = ema;
  options.steps_per_epoch = steps_per_epoch;
  options.on_non_finite =
      on_non_finite == "skip" ? trainer::OnNonFinite::kSkip : trainer::OnNonFinite::kFail;
}

std::string OptimisationOptions::rate_text() const {
  std::string rate = fmt::format("lr {:g}", chosen_lr());
  if (lr) return rate;
  const trainer::RuleDefaults rule = defaults();
  if (chosen_lr() == rule.lr) return rate + " (default)";
  return rate + fmt::format(" (default {:g} is for {} samples per step)", rule.lr, rule.lr_batch);
}

// The reason for the length of a default warm-up.
std::string OptimisationOptions::warmup_reason() const {
  if (!has_default_warmup()) return {};
  if (run_steps_ == 0) return " (no indexes: the length of the run is unknown)";
  if (chosen_warmup_steps() == defaults().warmup_steps) return {};
  const bool slow = optimizer == "sgd" && run_steps_ < kFewSteps;
  return fmt::format(" (the run has {}{})", counted(static_cast<std::uint64_t>(run_steps_), "step"),
                     slow ? "; sgd learns little in so few" : "");
}

std::string OptimisationOptions::warmup_text() const {
  const std::int64_t steps = chosen_warmup_steps();
  if (steps == 0) return {};
  return " after " + counted(static_cast<std::uint64_t>(steps), "step") + " of warm-up" +
         warmup_reason();
}

std::string OptimisationOptions::text() const {
  return fmt::format("{} {} {}{}", optimizer, rate_text(), schedule, warmup_text());
}

}  // namespace millrace::tools

#include "tools/train/optimisation_options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/help.h"
#include "tools/option_settings.h"
#include "tools/values.h"
#include "trainer/model.h"
#include "trainer/schedule.h"
#include "trainer/schedules/cosine.h"

namespace millrace::tools {
namespace {

/// A default warm-up takes at most this fraction of a run.
constexpr std::int64_t kWarmupShare = 10;
/// With fewer steps sgd is hardly better than chance (docs/decisions.md has the table).
constexpr std::int64_t kFewSteps = 50;

}  // namespace

OptimisationOptions::OptimisationOptions()
    : optimizer("optimizer", trainer::standard_rules(), trainer::Rule(trainer::Sgd())),
      schedule("schedule", trainer::standard_schedules(),
               trainer::ScheduleChoice(trainer::schedules::Cosine())) {}

void OptimisationOptions::declare(CLI::App &app) {
  app.option_defaults()->group("Optimisation");
  app.add_option("--epochs", epochs, "Passes over the samples")
      ->transform(whole_number(1, 1 << 20))
      ->check(in_short_help())
      ->check(may_change());
  optimizer.declare(app, "The update rule of the weights")->check(in_short_help());
  schedule.declare(app, "The schedule of the learning rate")
      ->check(may_change())
      ->check(in_short_help());
  app.add_flag("--scale-lr", scale_lr, "Multiply the rule's lr by the number of devices")
      ->check(may_change());
  app.add_option("--steps-per-epoch", steps_per_epoch,
                 "Steps in an epoch, for warm-up and schedules by step; 0: from the shards' "
                 "indexes, else counted")
      ->transform(whole_number(0))
      ->check(may_change());
  app.add_option("--accumulate", accumulate, "Batches per device to accumulate for one step")
      ->transform(whole_number(1, 1 << 20))
      ->check(may_change());
  declare_limits(app);
  app.add_option("--on-non-finite", on_non_finite,
                 "What to do when outputs, loss or gradients are not finite: fail; skip the step, "
                 "or leave out the evaluation's measures")
      ->transform(one_of({"fail", "skip"}))
      ->check(may_change());
}

void OptimisationOptions::declare_update(CLI::App &app) {
  app.option_defaults()->group("Optimisation");
  optimizer.declare(app, "The update rule of the weights")->check(in_short_help());
  declare_limits(app);
}

void OptimisationOptions::declare_limits(CLI::App &app) {
  app.add_option("--clip-norm", clip.norm, "Clip the norm of the gradients to this; 0: off")
      ->transform(real_number(0))
      ->check(may_change());
  app.add_option("--clip-value", clip.value, "Clip each gradient to this; 0: off")
      ->transform(real_number(0))
      ->check(may_change());
  app.add_option("--ema", ema,
                 "Decay of an exponential moving average of the weights, which is evaluated, and "
                 "saved as ema.safetensors beside the weights; 0: off")
      ->transform(real_number(0, 1))
      ->check(may_change());
}

void OptimisationOptions::check_update() {
  optimizer.settle();
  has_default_lr_ = optimizer.is_open("lr");
  require(ema < 1.0, "--ema must be below 1");
}

void OptimisationOptions::check() {
  check_update();
  schedule.settle();
  has_default_warmup_ = schedule.is_open("warmup") && rule().usual.warmup_steps > 0;
  require(!scale_lr || !has_default_lr_,
          "--scale-lr needs a rate, such as --optimizer 'sgd(0.1)': the default rate already "
          "depends on the samples in a step");
}

void OptimisationOptions::settle(const trainer::Model &model, std::int64_t step_samples,
                                 std::int64_t run_steps) {
  run_steps_ = run_steps;
  const bool has_norms = trainer::has_batch_norms(model);
  usual_lr_ = rule().usual.lr_of(has_norms);
  if (has_default_lr_)
    optimizer.set("lr", fmt::format("{}", rule().lr_for(step_samples, has_norms)));
  if (!has_default_warmup_) return;
  const std::string usual = fmt::format("{}steps", default_warmup_steps());
  is_saved_warmup_ = !saved_warmup.empty() && saved_warmup != usual;
  schedule.set("warmup", is_saved_warmup_ ? saved_warmup : usual);
}

trainer::RuleSettings OptimisationOptions::rule() const {
  return trainer::Rule(optimizer.component()).make()->settings();
}

trainer::Schedule OptimisationOptions::made_schedule() const {
  return {trainer::ScheduleChoice(schedule.component()),
          {.base_lr = rule().lr_for(0), .epochs = static_cast<double>(epochs)}};
}

bool OptimisationOptions::has_default_warmup() const { return has_default_warmup_; }

std::int64_t OptimisationOptions::default_warmup_steps() const {
  const std::int64_t usual = rule().usual.warmup_steps;
  if (run_steps_ == 0) return usual;
  return std::min(usual, std::max<std::int64_t>(1, run_steps_ / kWarmupShare));
}

bool OptimisationOptions::needs_steps_per_epoch() const {
  return made_schedule().needs_steps_per_epoch();
}

void OptimisationOptions::apply(trainer::TrainOptions &options) const {
  options.epochs = epochs;
  options.optimizer.rule = trainer::Rule(optimizer.component());
  options.schedule = trainer::ScheduleChoice(schedule.component());
  options.scale_lr = scale_lr;
  options.accumulate = accumulate;
  options.clip = clip;
  options.ema_decay = ema;
  options.steps_per_epoch = steps_per_epoch;
  options.on_non_finite =
      on_non_finite == "skip" ? trainer::OnNonFinite::kSkip : trainer::OnNonFinite::kFail;
}

std::string OptimisationOptions::rate_text() const {
  const trainer::RuleSettings now = rule();
  const double lr = now.lr_for(0);
  const std::string rate = fmt::format("lr {:g}", lr);
  if (!has_default_lr_) return rate;
  if (lr == usual_lr_) return rate + " (default)";
  return rate +
         fmt::format(" (default {:g} is for {} samples per step)", usual_lr_, now.usual.lr_batch);
}

// The reason for the length of a default warm-up.
std::string OptimisationOptions::warmup_reason() const {
  if (!has_default_warmup_) return {};
  if (is_saved_warmup_) return " (as the resumed run has it)";
  if (run_steps_ == 0) return " (no indexes: the length of the run is unknown)";
  if (default_warmup_steps() == rule().usual.warmup_steps) return {};
  const bool slow = optimizer.word() == "sgd" && run_steps_ < kFewSteps;
  return fmt::format(" (the run has {}{})", counted(static_cast<std::uint64_t>(run_steps_), "step"),
                     slow ? "; sgd learns little in so few" : "");
}

std::string OptimisationOptions::warmup_text() const {
  const std::int64_t steps = made_schedule().warmup_steps();
  if (steps == 0) return {};
  return " after " + counted(static_cast<std::uint64_t>(steps), "step") + " of warm-up" +
         warmup_reason();
}

std::string OptimisationOptions::text() const {
  return fmt::format("{} {} {}{}", optimizer.word(), rate_text(), schedule.word(), warmup_text());
}

}  // namespace millrace::tools

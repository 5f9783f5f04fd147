// OptimisationOptions: optimizer, learning rate schedule, clipping, weight averaging.
//
// Threads: a value type.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/optimizer.h"
#include "trainer/schedule.h"
#include "trainer/train_options.h"
#include "trainer/update_rule.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct OptimisationOptions {
  std::int64_t epochs = 1;
  std::string optimizer = "sgd";
  /// Empty: the rule's default, scaled to the samples of a step (settle()).
  std::optional<double> lr = {};
  /// Empty: the rule's default.
  std::optional<float> momentum = {};
  float dampening = 0.0F;
  bool nesterov = false;
  std::vector<float> betas = {0.9F, 0.999F};
  float epsilon = 1e-8F;
  float trust = 0.001F;
  std::optional<float> weight_decay = {};
  bool no_decay_norms_biases = false;
  bool scale_lr = false;
  std::int64_t accumulate = 1;
  trainer::ClipOptions clip = {};
  double ema = 0.0;
  std::string on_non_finite = "fail";

  std::string schedule = "cosine";
  /// "epoch", "step"; empty: the schedule's default.
  std::string schedule_unit = {};
  int step_epochs = 30;
  double gamma = 0.1;
  double divisor = 5.0;
  std::vector<double> milestones = {};
  double min_lr = 0.0;
  double warmup_epochs = 0.0;
  /// Empty: the rule's default, at most a tenth of the run; none if the schedule or warmup_epochs
  /// excludes it.
  std::optional<std::int64_t> warmup_steps = {};
  double warmup_start = 0.0;
  /// Per device; 0: to be found (tools/train/step_count.h).
  std::int64_t steps_per_epoch = 0;

  void declare(CLI::App& app);
  /// Throws: InvalidArgument for options that contradict each other.
  void check() const;

  /// Sets what only the run knows: the samples per step, which scale the default rate, and the
  /// run's steps, a tenth of which limits the default warm-up; 0: unknown.
  void settle(std::int64_t step_samples, std::int64_t run_steps);
  /// Whether the warm-up is a default and not given by the user.
  bool has_default_warmup() const;

  trainer::OptimizerOptions optimizer_options() const;
  trainer::ScheduleOptions schedule_options() const;
  bool needs_steps_per_epoch() const;
  /// Fills in the part of `options` that is decided here.
  void apply(trainer::TrainOptions& options) const;
  /// "sgd lr 0.05 (its usual 0.1 is for 128 samples per step) cosine after 100 steps of warm-up".
  std::string text() const;

 private:
  void declare_optimizer(CLI::App& app);
  void declare_schedule(CLI::App& app);
  void declare_step(CLI::App& app);
  trainer::RuleDefaults defaults() const;
  double chosen_lr() const;
  std::int64_t chosen_warmup_steps() const;
  std::string rate_text() const;
  std::string warmup_reason() const;
  std::string warmup_text() const;

  std::int64_t step_samples_ = 0;  ///< 0: not settled
  std::int64_t run_steps_ = 0;
};

}  // namespace millrace::tools

// OptimisationOptions: optimizer, learning rate schedule, clipping, weight averaging.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>

#include "tools/component_option.h"
#include "trainer/train_options.h"

namespace millrace::trainer {
class Model;
class Schedule;
}  // namespace millrace::trainer

namespace millrace::tools {

struct OptimisationOptions {
  OptimisationOptions();

  std::int64_t epochs = 1;
  ComponentOption optimizer;
  ComponentOption schedule;
  bool scale_lr = false;
  std::int64_t accumulate = 1;
  trainer::ClipOptions clip = {};
  double ema = 0.0;
  std::string on_non_finite = "fail";
  /// Per device; 0: to be found (tools/train/step_count.h).
  std::int64_t steps_per_epoch = 0;
  /// Of the run that is resumed, instead of the default; empty: none.
  std::string saved_warmup = {};

  static std::vector<const Table*> tables() {
    return {&trainer::standard_rules(), &trainer::standard_schedules()};
  }
  void declare(CLI::App& app);
  /// What one update is made of: --optimizer --clip-norm --clip-value --ema.
  void declare_update(CLI::App& app);
  /// Throws: InvalidArgument for options that contradict each other.
  void check();
  /// The same of declare_update()'s alone.
  void check_update();

  /// Sets what only the run knows: the samples per step, which scale the default rate, and the
  /// run's steps, a tenth of which limits the default warm-up; 0: unknown.
  void settle(const trainer::Model& model, std::int64_t step_samples, std::int64_t run_steps);
  /// Whether the warm-up is a default and not given by the user.
  bool has_default_warmup() const;

  bool needs_steps_per_epoch() const;
  /// Fills in the part of `options` that is decided here.
  void apply(trainer::TrainOptions& options) const;
  /// "sgd lr 0.05 (default 0.1 is for 128 samples per step) cosine after 100 steps of warm-up".
  std::string text() const;

 private:
  void declare_limits(CLI::App& app);
  trainer::Schedule made_schedule() const;
  trainer::RuleSettings rule() const;
  std::int64_t default_warmup_steps() const;
  std::string rate_text() const;
  std::string warmup_reason() const;
  std::string warmup_text() const;

  bool has_default_lr_ = false;
  double usual_lr_ = 0;  ///< of this model, for the rule's usual number of samples
  bool has_default_warmup_ = false;
  bool is_saved_warmup_ = false;
  std::int64_t run_steps_ = 0;
};

}  // namespace millrace::tools

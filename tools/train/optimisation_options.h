// OptimisationOptions: how the weights are changed: optimizer, schedule, clipping, averaging.
//
// Threads: as a value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/optimizer.h"
#include "trainer/schedule.h"
#include "trainer/train_options.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct OptimisationOptions {
  std::int64_t epochs = 1;
  std::string optimizer = "sgd";
  double lr = 0.1;
  float momentum = 0.9F;
  float dampening = 0.0F;
  bool nesterov = false;
  std::vector<float> betas = {0.9F, 0.999F};
  float epsilon = 1e-8F;
  float trust = 0.001F;
  float weight_decay = 0.0F;
  bool no_decay_norms_biases = false;
  bool scale_lr = false;
  std::int64_t accumulate = 1;
  trainer::ClipOptions clip = {};
  double ema = 0.0;
  std::string on_non_finite = "fail";

  std::string schedule = "cosine";
  /// "epoch", "step"; empty: the schedule's own.
  std::string schedule_unit = {};
  int step_epochs = 30;
  double gamma = 0.1;
  double divisor = 5.0;
  std::vector<double> milestones = {};
  double min_lr = 0.0;
  double warmup_epochs = 0.0;
  /// Empty: 100 for sgd and lars, whose first steps at the full rate undo themselves; none for the
  /// others, nor where the schedule or warmup_epochs says otherwise.
  std::optional<std::int64_t> warmup_steps = {};
  double warmup_start = 0.0;
  /// A device's; 0: to be found (tools/train/step_count.h).
  std::int64_t steps_per_epoch = 0;

  void declare(CLI::App& app);
  /// Throws: InvalidArgument for options that contradict each other.
  void check() const;

  trainer::OptimizerOptions optimizer_options() const;
  trainer::ScheduleOptions schedule_options() const;
  bool needs_steps_per_epoch() const;
  /// Fills in what of `options` is decided here.
  void apply(trainer::TrainOptions& options) const;
  /// "sgd lr 0.1 cosine", for people.
  std::string text() const;

 private:
  void declare_optimizer(CLI::App& app);
  void declare_schedule(CLI::App& app);
  void declare_step(CLI::App& app);
  std::int64_t chosen_warmup_steps() const;
};

}  // namespace millrace::tools

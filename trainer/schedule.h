// Schedule: the learning rate as a pure function of epoch and step.
//
// There is no state to resume. Per epoch, the rate changes at the epochs' bounds only; per step, it
// is a function of epoch + step / steps_per_epoch. Warm-up is always per step.
//
//   Schedule schedule({.kind = ScheduleKind::kCosine, .base_lr = 0.1, .epochs = 30});
//   const float lr = schedule.lr({.epoch = 3, .step = 17, .steps_per_epoch = 391});
//
// Source: torch.optim.lr_scheduler's formulas.
// Threads: const, from any.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace::trainer {

enum class ScheduleKind {
  kConstant,
  kStep,               ///< base * gamma ^ (epoch div step_epochs)
  kMultiStep,          ///< base * gamma ^ (milestones passed)
  kExponential,        ///< base * gamma ^ epoch
  kWarmupExponential,  ///< 0 → base over warmup_epochs, then base / divisor ^ (epoch div
                       ///< step_epochs)
  kCosine,             ///< min + (base - min) * (1 + cos(pi * t)) / 2
  kOneCycle,           ///< base / 25 → base → base / 25 / 1e4, cosine pieces
};

/// "constant", "step", "multi-step", "exponential", "warmup-exponential", "cosine", "one-cycle".
/// Throws: InvalidArgument for another name, with the list.
ScheduleKind parse_schedule_kind(std::string_view name);
std::string_view schedule_kind_name(ScheduleKind kind);

enum class ScheduleUnit { kEpoch, kStep };

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kConstant;
  ScheduleUnit unit = ScheduleUnit::kEpoch;
  double base_lr = 0.1;
  /// Length of the whole run: where cosine and one-cycle end.
  double epochs = 1.0;
  /// step, warmup-exponential: epochs between two reductions.
  int step_epochs = 30;
  double gamma = 0.1;
  std::vector<double> milestones = {};  ///< multi-step, in epochs, rising
  double divisor = 5.0;                 ///< warmup-exponential
  /// Linear warm-up to the schedule's rate, in epochs. 0: none, or for warmup-exponential 0.9 if
  /// warmup_steps is 0, too.
  double warmup_epochs = 0.0;
  /// Linear warm-up over the run's first steps, for an unknown number of steps per epoch. Not with
  /// warmup_epochs.
  std::int64_t warmup_steps = 0;
  /// The rate at which warm-up starts, as a share of the schedule's.
  double warmup_start = 0.0;
  double min_lr = 0.0;              ///< cosine
  double one_cycle_rise = 0.3;      ///< one-cycle: share of the run in which the rate rises
  double one_cycle_start_div = 25;  ///< one-cycle: base / this is where it starts
  double one_cycle_end_div = 1e4;   ///< one-cycle: start / this is where it ends
};

/// Where a run stands. `epoch` and `step` (in the epoch) count from 0.
struct SchedulePoint {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t steps_per_epoch = 0;  ///< 0: unknown
  std::int64_t global_step = 0;      ///< of the run, for warmup_steps
};

class Schedule {
 public:
  /// Throws: InvalidArgument for rates, lengths or divisors out of range.
  explicit Schedule(const ScheduleOptions& options);

  const ScheduleOptions& options() const { return options_; }
  /// True when lr() needs SchedulePoint::steps_per_epoch.
  bool needs_steps_per_epoch() const;
  /// Throws: InvalidArgument if needs_steps_per_epoch() and the point has none.
  float lr(const SchedulePoint& point) const;

 private:
  double shape(double epochs_done) const;
  double one_cycle(double share) const;
  double warmup_share(const SchedulePoint& point, double epochs_done) const;

  ScheduleOptions options_;
};

}  // namespace millrace::trainer

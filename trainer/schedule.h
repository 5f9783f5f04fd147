// Schedule: the learning rate as a pure function of epoch and step; which one is a component.
//
// There is no state to resume. By epoch, the rate changes at the epochs' bounds only; by step, it
// is a function of epoch + step / steps_per_epoch. Warm-up is always by step.
//
//   const ScheduleChoice choice = schedules::Cosine{.pace = {.warmup = RunLength{.count = 1}}};
//   const Schedule schedule(choice, {.base_lr = 0.1, .epochs = 30});
//   const float lr = schedule.lr({.epoch = 3, .step = 17, .steps_per_epoch = 391});
//
// To add one: a file in schedules/, a line in the table of schedule.cc; in another program a line
// in a copy of the table.
//
// Source: torch.optim.lr_scheduler's formulas.
// Threads: const, from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "io/component/choice.h"
#include "trainer/schedule_choice.h"

namespace millrace::trainer {

/// When a rate changes.
enum class RateUnit { kEpoch, kStep };
const ValueType& value_type(const RateUnit& unit);

/// What schedules have in common: how a run begins, and when the rate changes.
struct Pace {
  /// Linear rise from `start` to the schedule's rate. Default: none; of `millrace train` the
  /// rule's.
  std::optional<RunLength> warmup = {};
  double start = 0.0;  ///< as a share of the schedule's rate
  RateUnit unit = RateUnit::kEpoch;
  /// The schedule begins behind the warm-up, which rises as often as the rate changes, from the
  /// base rate's share: torch.optim.lr_scheduler.SequentialLR of LinearLR and the schedule. Else
  /// the warm-up is a factor of a schedule that begins with the run.
  bool after_warmup = false;

  /// Lists warmup, warmup_start, by and after_warmup: by name only.
  void fields(FieldList& field);
};

/// What a schedule starts from.
struct RunRate {
  double base_lr = 0.1;
  double epochs = 1.0;  ///< of the whole run: where cosine, linear and one-cycle end
  /// Epochs between two changes of the rate: 1, or by step that share of an epoch. Schedule sets
  /// it.
  double pace_epochs = 1.0;

  /// Of the run, 0 to 1.
  double share(double epochs_done) const;
};

/// The rate over a run, without warm-up.
class RateCurve {
 public:
  explicit RateCurve(const Pace& pace) : pace_(pace) {}
  virtual ~RateCurve() = default;

  const Pace& pace() const { return pace_; }
  /// `epochs_done`: with the share of the present one, unless the rate changes by epoch.
  virtual double rate(const RunRate& run, double epochs_done) const = 0;

 private:
  Pace pace_;
};

/// A curve of a function: double(const RunRate& run, double epochs_done).
template <typename Rate>
std::unique_ptr<RateCurve> make_curve(const Pace& pace, Rate rate) {
  class Curve final : public RateCurve {
   public:
    Curve(const Pace& pace, Rate rate) : RateCurve(pace), rate_(std::move(rate)) {}
    double rate(const RunRate& run, double epochs_done) const override {
      return rate_(run, epochs_done);
    }

   private:
    Rate rate_;
  };
  return std::make_unique<Curve>(pace, std::move(rate));
}

/// From `from` at 0 to `to` at 1, along half a period of a cosine.
double cosine_between(double from, double to, double share);

/// Where a run stands. `epoch` and `step` (in the epoch) count from 0.
struct SchedulePoint {
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::int64_t steps_per_epoch = 0;  ///< 0: unknown
  std::int64_t global_step = 0;      ///< of the run, for a warm-up in steps
};

class Schedule {
 public:
  /// Throws: InvalidArgument for a rate, a length or a field out of range.
  Schedule(const ScheduleChoice& choice, const RunRate& run);

  double base_lr() const { return run_.base_lr; }
  /// Steps of the warm-up. One in epochs has none where `steps_per_epoch` is 0, for unknown.
  std::int64_t warmup_steps(std::int64_t steps_per_epoch = 0) const;
  /// True when lr() needs SchedulePoint::steps_per_epoch.
  bool needs_steps_per_epoch() const;
  /// Throws: InvalidArgument if needs_steps_per_epoch() and the point has none.
  float lr(const SchedulePoint& point) const;

 private:
  double warmup_share(const SchedulePoint& point, double epochs_done) const;
  double sequential_rate(const RunRate& run, const SchedulePoint& point) const;

  std::shared_ptr<const RateCurve> curve_;
  RunRate run_;
  RunLength warmup_;
};

}  // namespace millrace::trainer

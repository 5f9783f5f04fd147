#include "trainer/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "io/base/error.h"
#include "trainer/schedules/constant.h"
#include "trainer/schedules/cosine.h"
#include "trainer/schedules/exponential.h"
#include "trainer/schedules/linear.h"
#include "trainer/schedules/multi_step.h"
#include "trainer/schedules/one_cycle.h"
#include "trainer/schedules/step.h"

namespace millrace::trainer {

const TableOf<RateCurve>& standard_schedules() {
  static const TableOf<RateCurve> table = TableOf<RateCurve>("schedule")
                                              .add<schedules::Constant>()
                                              .add<schedules::Step>()
                                              .add<schedules::MultiStep>()
                                              .add<schedules::Exponential>()
                                              .add<schedules::Cosine>()
                                              .add<schedules::Linear>()
                                              .add<schedules::OneCycle>();
  return table;
}

ScheduleChoice constant_schedule() { return schedules::Constant(); }

const ValueType& value_type(const RateUnit& /*unit*/) {
  static const EnumType<RateUnit> type({{"epoch", RateUnit::kEpoch}, {"step", RateUnit::kStep}});
  return type;
}

void Pace::fields(FieldList& field) {
  field.by_name();
  field("warmup", warmup, {.min = 0}, "Linear rise of the rate at the start");
  field("warmup_start", start, {.min = 0, .max = 1}, "Where it starts, as a share of the rate");
  field("by", unit, "Whether the rate changes with each epoch or each step");
  field("after_warmup", after_warmup,
        "The schedule begins when the warm-up has ended, as with PyTorch's SequentialLR; else it "
        "begins with the run, and the warm-up is a factor");
}

double RunRate::share(double epochs_done) const { return std::min(1.0, epochs_done / epochs); }

double cosine_between(double from, double to, double share) {
  return to + (from - to) * (1.0 + std::cos(std::numbers::pi * share)) / 2.0;
}

Schedule::Schedule(const ScheduleChoice& choice, const RunRate& run)
    : curve_(choice.make()), run_(run), warmup_(curve_->pace().warmup.value_or(RunLength())) {
  require(std::isfinite(run.base_lr) && run.base_lr >= 0.0,
          "the learning rate must be a number that is not negative");
  require(run.base_lr <= static_cast<double>(std::numeric_limits<float>::max()),
          "the learning rate is larger than a float32 can be");
  require(run.epochs > 0.0, "a schedule's length must be positive");
}

std::int64_t Schedule::warmup_steps(std::int64_t steps_per_epoch) const {
  const double each =
      warmup_.unit == RunLength::Unit::kSteps ? 1.0 : static_cast<double>(steps_per_epoch);
  return static_cast<std::int64_t>(std::ceil(warmup_.count * each));
}

bool Schedule::needs_steps_per_epoch() const {
  const bool is_in_epochs = warmup_.unit == RunLength::Unit::kEpochs;
  const bool rises = warmup_.count > 0.0 && is_in_epochs != curve_->pace().after_warmup;
  return curve_->pace().unit == RateUnit::kStep || rises;
}

// The progress of warm-up: 0 to 1. In steps, the first one has a rate above 0.
double Schedule::warmup_share(const SchedulePoint& point, double epochs_done) const {
  if (warmup_.count == 0.0) return 1.0;
  const double done = warmup_.unit == RunLength::Unit::kSteps
                          ? static_cast<double>(point.global_step + 1)
                          : epochs_done;
  return std::min(1.0, done / warmup_.count);
}

// In steps or epochs, whichever the rate changes by, so that both are whole numbers.
double Schedule::sequential_rate(const RunRate& run, const SchedulePoint& point) const {
  const bool by_step = curve_->pace().unit == RateUnit::kStep;
  const auto steps = static_cast<double>(point.steps_per_epoch);
  const double per_epoch = by_step ? steps : 1.0;
  const double done = static_cast<double>(point.epoch) * per_epoch +
                      (by_step ? static_cast<double>(point.step) : 0.0);
  const bool is_in_epochs = warmup_.unit == RunLength::Unit::kEpochs;
  const double rise = by_step        ? static_cast<double>(warmup_steps(point.steps_per_epoch))
                      : is_in_epochs ? warmup_.count
                                     : warmup_.count / steps;
  const double start = curve_->pace().start;
  if (done < rise) return run.base_lr * (start + (1.0 - start) * done / rise);
  RunRate rest = run;
  rest.epochs = std::max(run.epochs - rise / per_epoch, run.pace_epochs);
  return curve_->rate(rest, (done - rise) / per_epoch);
}

float Schedule::lr(const SchedulePoint& point) const {
  if (needs_steps_per_epoch() && point.steps_per_epoch <= 0) {
    throw Error(ErrorCode::kInvalidArgument,
                "a schedule per step and warm-up need the number of steps in an epoch: give it, or "
                "index the shards");
  }
  const auto epoch = static_cast<double>(point.epoch);
  const double exact =
      point.steps_per_epoch <= 0
          ? epoch
          : epoch + static_cast<double>(point.step) / static_cast<double>(point.steps_per_epoch);
  const bool by_step = curve_->pace().unit == RateUnit::kStep;
  RunRate run = run_;
  if (by_step) run.pace_epochs = 1.0 / static_cast<double>(point.steps_per_epoch);
  if (curve_->pace().after_warmup) return static_cast<float>(sequential_rate(run, point));
  const double rate = curve_->rate(run, by_step ? exact : epoch);
  const double start = curve_->pace().start;
  return static_cast<float>(rate * (start + (1.0 - start) * warmup_share(point, exact)));
}

}  // namespace millrace::trainer

#include "trainer/schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "io/base/error.h"

namespace millrace::trainer {
namespace {

constexpr std::array<std::pair<std::string_view, ScheduleKind>, 7> kNames{
    {{"constant", ScheduleKind::kConstant},
     {"step", ScheduleKind::kStep},
     {"multi-step", ScheduleKind::kMultiStep},
     {"exponential", ScheduleKind::kExponential},
     {"warmup-exponential", ScheduleKind::kWarmupExponential},
     {"cosine", ScheduleKind::kCosine},
     {"one-cycle", ScheduleKind::kOneCycle}}};

// From `from` at 0 to `to` at 1, along half a period of a cosine.
double cosine_between(double from, double to, double share) {
  return to + (from - to) * (1.0 + std::cos(std::numbers::pi * share)) / 2.0;
}

}  // namespace

ScheduleKind parse_schedule_kind(std::string_view name) {
  for (const auto& [known, kind] : kNames) {
    if (known == name) return kind;
  }
  throw Error(ErrorCode::kInvalidArgument,
              "no schedule is called '" + std::string(name) +
                  "'; there are constant, step, multi-step, exponential, warmup-exponential, "
                  "cosine, one-cycle");
}

std::string_view schedule_kind_name(ScheduleKind kind) {
  return kNames[static_cast<std::size_t>(kind)].first;
}

Schedule::Schedule(const ScheduleOptions& options) : options_(options) {
  require(std::isfinite(options.base_lr) && options.base_lr >= 0.0,
          "the learning rate must be a number that is not negative");
  require(options.base_lr <= static_cast<double>(std::numeric_limits<float>::max()),
          "the learning rate is larger than a float32 can be");
  require(options.epochs > 0.0, "a schedule's length must be positive");
  require(options.step_epochs > 0, "a schedule's step must be at least one epoch");
  require(options.gamma > 0.0 && options.divisor > 0.0,
          "a schedule's gamma and divisor must be positive");
  require(options.warmup_epochs >= 0.0, "warm-up must not be negative");
  require(options.warmup_steps >= 0, "warm-up must not be negative");
  require(options.warmup_steps == 0 || options.warmup_epochs == 0.0,
          "warm-up is given in epochs or in steps, not in both");
  require(std::is_sorted(options.milestones.begin(), options.milestones.end()),
          "a schedule's milestones must increase");
  if (options_.kind == ScheduleKind::kWarmupExponential && options_.warmup_epochs == 0.0 &&
      options_.warmup_steps == 0) {
    options_.warmup_epochs = 0.9;
  }
}

bool Schedule::needs_steps_per_epoch() const {
  return options_.unit == ScheduleUnit::kStep || options_.warmup_epochs > 0.0;
}

double Schedule::one_cycle(double share) const {
  const double top = options_.base_lr;
  const double start = top / options_.one_cycle_start_div;
  const double rise = options_.one_cycle_rise;
  if (share < rise) return cosine_between(start, top, share / rise);
  return cosine_between(top, start / options_.one_cycle_end_div, (share - rise) / (1.0 - rise));
}

// The rate without warm-up, `epochs_done` into the run.
double Schedule::shape(double epochs_done) const {
  const double base = options_.base_lr;
  const double cuts = std::floor(epochs_done / options_.step_epochs);
  const double share = std::min(1.0, epochs_done / options_.epochs);
  switch (options_.kind) {
    case ScheduleKind::kConstant:
      return base;
    case ScheduleKind::kStep:
      return base * std::pow(options_.gamma, cuts);
    case ScheduleKind::kMultiStep: {
      const auto& marks = options_.milestones;
      const auto passed = std::upper_bound(marks.begin(), marks.end(), epochs_done);
      return base * std::pow(options_.gamma, static_cast<double>(passed - marks.begin()));
    }
    case ScheduleKind::kExponential:
      return base * std::pow(options_.gamma, epochs_done);
    case ScheduleKind::kWarmupExponential:
      return base / std::pow(options_.divisor, cuts);
    case ScheduleKind::kCosine:
      return cosine_between(base, options_.min_lr, share);
    case ScheduleKind::kOneCycle:
      return one_cycle(share);
  }
  return base;
}

// The progress of warm-up: 0 to 1. In steps, the first one has a rate above 0.
double Schedule::warmup_share(const SchedulePoint& point, double epochs_done) const {
  if (options_.warmup_steps > 0) {
    const auto steps = static_cast<double>(options_.warmup_steps);
    return std::min(1.0, static_cast<double>(point.global_step + 1) / steps);
  }
  return options_.warmup_epochs == 0.0 ? 1.0 : std::min(1.0, epochs_done / options_.warmup_epochs);
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
  const double rate = shape(options_.unit == ScheduleUnit::kStep ? exact : epoch);
  const double share = warmup_share(point, exact);
  return static_cast<float>(rate * (options_.warmup_start + (1.0 - options_.warmup_start) * share));
}

}  // namespace millrace::trainer

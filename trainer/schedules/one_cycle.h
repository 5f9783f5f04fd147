// base / start_div -> base -> base / start_div / end_div, in pieces of cosines. The run's last step
// has the last rate. Source: torch.optim.lr_scheduler.OneCycleLR, total_steps: those of the run.
// Threads: as a value.
#pragma once

#include <algorithm>
#include <memory>

#include "trainer/schedule.h"

namespace millrace::trainer::schedules {

/// It rises by itself: there is no other warm-up.
struct OneCycle {
  double rise = 0.3;  ///< share of the run in which the rate rises
  double start_div = 25;
  double end_div = 1e4;
  RateUnit unit = RateUnit::kStep;

  static constexpr ComponentName kName = {"one-cycle", "OneCycle",
                                          "Rises and falls once, along cosines"};
  void fields(FieldList& field) {
    field("rise", rise, {.min = 0, .max = 1, .open_min = true, .open_max = true},
          "Share of the run in which the rate rises");
    field.by_name();
    field("start_div", start_div, {.min = 0, .open_min = true}, "Rate / this is where it starts");
    field("end_div", end_div, {.min = 0, .open_min = true}, "The start / this is where it ends");
    field("by", unit, "Whether the rate changes with each epoch or each step");
  }
  std::unique_ptr<RateCurve> make() const {
    return make_curve({.unit = unit}, [it = *this](const RunRate& run, double epochs_done) {
      const double last = run.epochs - run.pace_epochs;  // where the last step begins
      const double top = it.rise * run.epochs - run.pace_epochs;
      const double done = std::min(epochs_done, last);
      const double start = run.base_lr / it.start_div;
      if (done < top) return cosine_between(start, run.base_lr, done / top);
      return cosine_between(run.base_lr, start / it.end_div, (done - top) / (last - top));
    });
  }
};

}  // namespace millrace::trainer::schedules

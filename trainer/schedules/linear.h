// base + (to - base) * t for a share t of the run. Source: torch.optim.lr_scheduler.LinearLR.
// Threads: as a value.
#pragma once

#include <memory>

#include "trainer/schedule.h"

namespace millrace::trainer::schedules {

struct Linear {
  double final_rate = 0.0;
  Pace pace = {};

  static constexpr ComponentName kName = {"linear", "Linear", "Falls along a line"};
  void fields(FieldList& field) {
    field("to", final_rate, {.min = 0}, "Rate at the end");
    pace.fields(field);
  }
  std::unique_ptr<RateCurve> make() const {
    return make_curve(pace, [to = final_rate](const RunRate& run, double epochs_done) {
      return run.base_lr + (to - run.base_lr) * run.share(epochs_done);
    });
  }
};

}  // namespace millrace::trainer::schedules

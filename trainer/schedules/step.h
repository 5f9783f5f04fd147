// base * gamma ^ (epochs div every). Source: torch.optim.lr_scheduler.StepLR. Threads: as a value.
#pragma once

#include <cmath>
#include <memory>

#include "trainer/schedule.h"

namespace millrace::trainer::schedules {

struct Step {
  int every = 30;  ///< epochs
  double gamma = 0.1;
  Pace pace = {};

  static constexpr ComponentName kName = {"step", "Step", "Falls by a factor every so many epochs"};
  void fields(FieldList& field) {
    field("every", every, {.min = 1, .max = 1 << 20, .unit = "epochs"}, "Between two drops");
    field("gamma", gamma, {.min = 0, .open_min = true}, "Factor of each drop");
    pace.fields(field);
  }
  std::unique_ptr<RateCurve> make() const {
    return make_curve(pace, [every = every, gamma = gamma](const RunRate& run, double epochs_done) {
      return run.base_lr * std::pow(gamma, std::floor(epochs_done / every));
    });
  }
};

}  // namespace millrace::trainer::schedules

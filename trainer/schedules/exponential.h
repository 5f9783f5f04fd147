// base * gamma ^ epochs. Source: torch.optim.lr_scheduler.ExponentialLR. Threads: as a value.
#pragma once

#include <cmath>
#include <memory>

#include "trainer/schedule.h"

namespace millrace::trainer::schedules {

struct Exponential {
  double gamma = 0.1;
  Pace pace = {};

  static constexpr ComponentName kName = {"exponential", "Exponential",
                                          "Falls by a factor with each epoch"};
  void fields(FieldList& field) {
    field("gamma", gamma, {.min = 0, .open_min = true}, "Factor of an epoch");
    pace.fields(field);
  }
  std::unique_ptr<RateCurve> make() const {
    return make_curve(pace, [gamma = gamma](const RunRate& run, double epochs_done) {
      return run.base_lr * std::pow(gamma, epochs_done);
    });
  }
};

}  // namespace millrace::trainer::schedules

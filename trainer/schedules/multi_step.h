// base * gamma ^ (milestones passed). Source: torch.optim.lr_scheduler.MultiStepLR. Threads: as a
// value.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "io/base/error.h"
#include "trainer/schedule.h"

namespace millrace::trainer::schedules {

struct MultiStep {
  std::vector<double> milestones = {};  ///< in epochs, rising
  double gamma = 0.1;
  Pace pace = {};

  static constexpr ComponentName kName = {"multi-step", "MultiStep",
                                          "Falls by a factor at given epochs"};
  void fields(FieldList& field) {
    field("milestones", milestones, {.min = 0, .open_min = true, .unit = "epochs"},
          "When it drops, such as [30, 60, 80]");
    field("gamma", gamma, {.min = 0, .open_min = true}, "Factor of each drop");
    pace.fields(field);
  }
  /// Throws: InvalidArgument unless the milestones are given and rise.
  void check() const {
    require(!milestones.empty(), "give the epochs of the drops: milestones=[30, 60, 80]");
    require(std::is_sorted(milestones.begin(), milestones.end()), "milestones must increase");
  }
  std::unique_ptr<RateCurve> make() const {
    return make_curve(
        pace, [marks = milestones, gamma = gamma](const RunRate& run, double epochs_done) {
          const auto passed = std::upper_bound(marks.begin(), marks.end(), epochs_done);
          return run.base_lr * std::pow(gamma, static_cast<double>(passed - marks.begin()));
        });
  }
};

}  // namespace millrace::trainer::schedules

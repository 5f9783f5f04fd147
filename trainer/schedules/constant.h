// The same rate throughout. Threads: as a value.
#pragma once

#include <memory>

#include "trainer/schedule.h"

namespace millrace::trainer::schedules {

struct Constant {
  Pace pace = {};

  static constexpr ComponentName kName = {"constant", "Constant", "The same rate throughout"};
  void fields(FieldList& field) { pace.fields(field); }
  std::unique_ptr<RateCurve> make() const {
    return make_curve(pace, [](const RunRate& run, double /*epochs_done*/) { return run.base_lr; });
  }
};

}  // namespace millrace::trainer::schedules

// ScheduleChoice: which schedule of the learning rate a run has, as a value. What a schedule is:
// schedule.h, which options do not need to know.
//
// Threads: as a value.
#pragma once

#include "io/component/choice.h"

namespace millrace::trainer {

class RateCurve;
using ScheduleChoice = Choice<RateCurve>;

/// constant, step, multi-step, exponential, cosine, linear, one-cycle.
const TableOf<RateCurve>& standard_schedules();

/// schedules::Constant: the same rate throughout.
ScheduleChoice constant_schedule();

}  // namespace millrace::trainer

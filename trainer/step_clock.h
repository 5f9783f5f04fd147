// StepClock: how a replica spends its time within a step, as laps of one clock.
//
//   StepClock clock({&control, &gradients});
//   clock.start();
//   ...; clock.lap(&StepTimes::forward);
//   ...; clock.lap_collectives();
//
// Each lap is a span of a trace, if there is one: the trace and the sums are of the same moments.
//
// Threads: one at a time, its replica's.
#pragma once

#include <chrono>
#include <vector>

#include "io/base/trace.h"
#include "pipeline/batch.h"
#include "trainer/collectives.h"
#include "trainer/events.h"

namespace millrace::trainer {

class StepClock {
 public:
  /// `groups`, borrowed: those in which the replica waits for others.
  explicit StepClock(std::vector<const Collectives*> groups, const TraceTrack& trace = {});

  /// Clears the times and starts a lap.
  void start();
  /// Ends a lap, whose time is added to `part`.
  void lap(double StepTimes::*part);
  /// Ends a lap of collectives: the time waiting for slower replicas is added to peer_wait, the
  /// rest to reduce.
  void lap_collectives();
  /// The times since the last call; the current lap continues.
  StepTimes take();
  /// Traces what lies between start(), or the last call, and the last lap's end, as one span.
  /// `batch`, of the step, may be null.
  void end_step(const StepEvent& step, const pipeline::Batch* batch);

 private:
  double end_lap(const char* name);
  std::chrono::nanoseconds peer_wait() const;

  std::vector<const Collectives*> groups_;
  StepTimes times_ = {};
  std::chrono::steady_clock::time_point lap_;
  std::chrono::steady_clock::time_point step_;  ///< its begin, of what is traced
  std::chrono::nanoseconds waited_{0};          ///< peer_wait() at the lap's start
  TraceTrack trace_;
};

}  // namespace millrace::trainer

// StepTimer: how a replica spends its time within a step, as laps of one clock.
//
// Threads: the replica's own.
#pragma once

#include <chrono>

#include "trainer/detail/replica.h"
#include "trainer/events.h"

namespace millrace::trainer::detail {

class StepTimer {
 public:
  /// Starts the first lap. `replica` is borrowed.
  explicit StepTimer(Replica& replica);

  /// Clears the times of the last step; the current lap continues.
  void begin_step() { times_ = {}; }
  /// Ends a lap, whose time is added to `part`.
  void lap(double StepTimes::*part);
  /// Ends a lap of collectives: the time waiting for slower replicas is added to peer_wait, the
  /// rest to reduce.
  void lap_collectives();
  const StepTimes& times() const { return times_; }

 private:
  double end_lap();
  std::chrono::nanoseconds peer_wait() const;

  Replica& replica_;
  StepTimes times_;
  std::chrono::steady_clock::time_point lap_;
  std::chrono::nanoseconds waited_;  ///< peer_wait() at the lap's start
};

}  // namespace millrace::trainer::detail

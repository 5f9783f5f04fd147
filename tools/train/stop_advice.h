// StopAdvice: an observer that says, once, where mpirun would kill a run that it was told to end
// before that has saved its state: in the middle of a step that takes longer than mpirun waits.
//
// Threads: as Observer.
#pragma once

#include <fmt/format.h>

#include "io/base/log.h"
#include "trainer/observer.h"

namespace millrace::tools {

class StopAdvice final : public trainer::Observer {
 public:
  /// `kill_seconds`: as mpirun_kill_seconds(); 0: nothing is said.
  StopAdvice(double kill_seconds, const Log& log) : kill_seconds_(kill_seconds), log_(log) {}

  /// A run's first step is not like the others.
  void on_step(const trainer::StepEvent& event) override {
    constexpr double kForSaving = 0.5;  // of the time
    if (kill_seconds_ <= 0 || ++steps_ == 1) return;
    if (event.times.total() < kForSaving * kill_seconds_) return;
    log_.warn(fmt::format(
        "a step takes {:.1f} s, and mpirun kills its processes {:g} s after a SIGTERM or SIGINT: "
        "nothing would be saved. End it by SIGUSR1, or start mpirun with --mca "
        "odls_base_sigkill_timeout {:.0f}",
        event.times.total(), kill_seconds_, 10 + 3 * event.times.total()));
    kill_seconds_ = 0;
  }

 private:
  double kill_seconds_;
  const Log log_;
  int steps_ = 0;
};

}  // namespace millrace::tools

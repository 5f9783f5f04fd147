// EpochHost: the run that an epoch of training belongs to: what it is asked and told at steps.
//
// Threads: all on rank 0's replica thread but on_log_step(), which every replica calls on its own.
#pragma once

#include "trainer/events.h"

namespace millrace::trainer::detail {

class EpochHost {
 public:
  virtual ~EpochHost() = default;

  /// Whether the run should end after the step in flight. Asked before every micro-batch.
  virtual bool stop_due() = 0;
  /// Whether the time for a checkpoint has come; true once for each. Asked likewise.
  virtual bool checkpoint_due() = 0;
  /// Saves what the steps so far made. All replicas wait, and their totals are up to date.
  virtual void save_checkpoint() = 0;

  /// Before every step, when its first batch has come.
  virtual void on_step_start(const StepStart& step) = 0;
  /// After every step.
  virtual void on_step(const StepEvent& event) = 0;
  /// After every log_steps-th step, from every replica.
  virtual void on_log_step(const StepEvent& event) = 0;
};

}  // namespace millrace::trainer::detail

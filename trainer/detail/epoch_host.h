// EpochHost: the run that an epoch of training belongs to: what it is asked and told at steps.
//
// Threads: all on the thread of the process's first replica but prepare_checkpoint() and
// on_log_step(), which every replica calls on its own.
#pragma once

#include "trainer/detail/replica.h"
#include "trainer/events.h"

namespace millrace::trainer::detail {

class EpochHost {
 public:
  virtual ~EpochHost() = default;

  /// Whether this process wants the run to end after the step in flight. Asked before every
  /// micro-batch, in every process; one that wants it is enough.
  virtual bool stop_due() = 0;
  /// Whether the time for a checkpoint has come; true once for each. Asked likewise, in process 0.
  virtual bool checkpoint_due() = 0;
  /// Before each checkpoint, from every replica: a collective.
  virtual void prepare_checkpoint(Replica& replica) = 0;
  /// Saves what the steps so far made, in every process at once. All replicas wait, and their
  /// totals are up to date.
  virtual void save_checkpoint() = 0;

  /// Before every step, when its first batch has come; from rank 0.
  virtual void on_step_start(const StepStart& step) = 0;
  /// After every step; from rank 0.
  virtual void on_step(const StepEvent& event) = 0;
  /// After every log_steps-th step, from every replica.
  virtual void on_log_step(const StepEvent& event) = 0;
};

}  // namespace millrace::trainer::detail

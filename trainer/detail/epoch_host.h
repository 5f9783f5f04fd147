// EpochHost: the run that an epoch of training belongs to, as the epoch's replicas call it.
//
// Threads: all on the thread of the process's first replica, except prepare_checkpoint() and
// on_log_step(), which every replica calls on its own.
#pragma once

#include "trainer/detail/replica.h"
#include "trainer/events.h"

namespace millrace::trainer::detail {

class EpochHost {
 public:
  virtual ~EpochHost() = default;

  /// Whether this process wants the run to end after the current step. Called before every
  /// micro-batch, in every process; one of them suffices.
  virtual bool stop_due() = 0;
  /// Whether a checkpoint is due; true once for each. Called likewise, in process 0.
  virtual bool checkpoint_due() = 0;
  /// Before each checkpoint, from every replica: a collective.
  virtual void prepare_checkpoint(Replica& replica) = 0;
  /// Saves a checkpoint after the last step, in every process at once. All replicas wait meanwhile,
  /// and their totals are up to date.
  virtual void save_checkpoint() = 0;

  /// Before every step, after its first batch has arrived; from rank 0.
  virtual void on_step_start(const StepStart& step) = 0;
  /// After every step; from rank 0.
  virtual void on_step(const StepEvent& event) = 0;
  /// After every log_steps-th step, from every replica.
  virtual void on_log_step(const StepEvent& event) = 0;
};

}  // namespace millrace::trainer::detail

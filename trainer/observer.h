// Observer: hooks that a run calls. The defaults do nothing.
//
// A run of two steps that evaluates, saves and has one epoch calls, in this order:
//
//   on_fit_start
//     on_epoch_start
//       on_step_start, on_step (, on_log_step)      for each step
//     on_train_end
//     on_evaluation_start, on_evaluation_step..., on_evaluation_end
//     on_epoch_end
//     on_checkpoint_start, on_checkpoint_step..., on_checkpoint    for each checkpoint
//   on_fit_end
//
// A part that is ended early by a fault or a stop has its start hook and no end hook; on_fit_end is
// called after a stop, on_fault after a fault.
//
// Threads: the hooks of steps, of evaluation steps and of checkpoints within an epoch are called on
// rank 0's replica thread, between collectives, the rest on fit()'s. An observer that takes long
// slows every replica, and one that throws ends the run.
#pragma once

#include <string>

#include "trainer/events.h"

namespace millrace::trainer {

class Observer {
 public:
  virtual ~Observer() = default;

  virtual void on_fit_start() {}
  /// `epoch` from 1.
  virtual void on_epoch_start(std::int64_t /*epoch*/) {}
  /// Before every step, after its first batch has arrived.
  virtual void on_step_start(const StepStart& /*step*/) {}
  /// After every step, when the weights are updated and its loss is known: at once on the CPU; with
  /// a backend whose steps run ahead of the host, after the next step's start.
  virtual void on_step(const StepEvent& /*event*/) {}
  /// After every log_steps-th step.
  virtual void on_log_step(const StepEvent& /*event*/) {}
  virtual void on_train_end(const EpochEvent& /*event*/) {}
  /// `epoch` from 1; 0 is the check before training (TrainOptions::sanity_val_steps).
  virtual void on_evaluation_start(std::int64_t /*epoch*/) {}
  /// `batches`: of rank 0, evaluated so far.
  virtual void on_evaluation_step(std::int64_t /*batches*/) {}
  /// With the evaluation's values; for the check before training nothing else is set.
  virtual void on_evaluation_end(const EpochEvent& /*event*/) {}
  virtual void on_epoch_end(const EpochEvent& /*event*/) {}
  /// A checkpoint will be written to `path`.
  virtual void on_checkpoint_start(const std::string& /*path*/) {}
  /// While it is written; of one that is sent to a store, while the run waits for it.
  virtual void on_checkpoint_step(const CheckpointStep& /*step*/) {}
  /// The checkpoint at `path` is complete.
  virtual void on_checkpoint(const std::string& /*path*/) {}
  /// After on_epoch_end(), and the epoch's on_checkpoint().
  virtual void on_saved(const SavedEvent& /*event*/) {}
  virtual void on_fit_end(const EndEvent& /*event*/) {}
  /// The run fails. What it throws is lost: the fault itself is what fit() throws.
  virtual void on_fault(const FaultEvent& /*event*/) {}
};

}  // namespace millrace::trainer

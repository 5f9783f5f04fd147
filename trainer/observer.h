// Observer: somebody who is told what a run does. Hooks at the usual places; all do nothing here.
//
// A run of two steps that evaluates, saves and has one epoch calls, in this order:
//
//   on_fit_start
//     on_epoch_start
//       on_step_start, on_step (, on_log_step)      for each step
//     on_train_end
//     on_evaluation_start, on_evaluation_step..., on_evaluation_end
//     on_checkpoint_start, on_checkpoint            for each checkpoint
//     on_epoch_end
//   on_fit_end
//
// Steps and evaluations are called on rank 0's replica thread, between collectives, the rest on
// fit()'s: an observer that takes long slows every replica, and one that throws ends the run. What
// is broken off by a failure or a stop has a start and no end; on_fit_end follows a stop, and no
// failure.
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
  /// When its first batch has come.
  virtual void on_step_start(const StepStart& /*step*/) {}
  /// After every step, when the weights are updated.
  virtual void on_step(const StepEvent& /*event*/) {}
  /// After every log_steps-th step.
  virtual void on_log_step(const StepEvent& /*event*/) {}
  virtual void on_train_end(const EpochEvent& /*event*/) {}
  /// `epoch` from 1; 0 is the check before training (TrainOptions::sanity_val_steps).
  virtual void on_evaluation_start(std::int64_t /*epoch*/) {}
  /// Batches of rank 0 evaluated so far.
  virtual void on_evaluation_step(std::int64_t /*batches*/) {}
  /// With what was measured; of a check before training there is nothing else in the event.
  virtual void on_evaluation_end(const EpochEvent& /*event*/) {}
  virtual void on_epoch_end(const EpochEvent& /*event*/) {}
  /// A checkpoint will be written to `path`.
  virtual void on_checkpoint_start(const std::string& /*path*/) {}
  /// A whole checkpoint lies at `path`.
  virtual void on_checkpoint(const std::string& /*path*/) {}
  virtual void on_fit_end(const EndEvent& /*event*/) {}
};

}  // namespace millrace::trainer

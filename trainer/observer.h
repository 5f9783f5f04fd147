// Observer: somebody who is told what a run does. Hooks at the usual places; all do nothing here.
//
// Everything is called on rank 0's replica thread, between collectives: an observer that takes long
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
  /// After every step.
  virtual void on_step(const StepEvent& /*event*/) {}
  /// After every log_steps-th step.
  virtual void on_log_step(const StepEvent& /*event*/) {}
  virtual void on_train_end(const EpochEvent& /*event*/) {}
  virtual void on_evaluation_start(std::int64_t /*epoch*/) {}
  /// Batches of rank 0 evaluated so far.
  virtual void on_evaluation_step(std::int64_t /*batches*/) {}
  virtual void on_epoch_end(const EpochEvent& /*event*/) {}
  /// A whole checkpoint lies at `path`.
  virtual void on_checkpoint(const std::string& /*path*/) {}
  virtual void on_fit_end(const EndEvent& /*event*/) {}
};

}  // namespace millrace::trainer

// RunEvaluation: a run's evaluations, with the weights' EMA where one is kept: their measures, and
// what measures that are no numbers mean.
//
// Threads: one at a time, while no replica computes.
#pragma once

#include <cstdint>

#include "trainer/detail/loop/run_parts.h"
#include "trainer/events.h"

namespace millrace::trainer::detail {

class RunEvaluation {
 public:
  /// `run` is borrowed.
  explicit RunEvaluation(const RunParts& run) : run_(run) {}

  /// Sets the event's measures. `max_batches`: per replica; 0: all. Returns false after a stop,
  /// which is agreed on.
  bool measure(EpochEvent& event, std::int64_t max_batches = 0);
  /// Ends the run, or leaves out the measures, if outputs or the loss were not finite.
  void check_finite(EpochEvent& event);
  /// options.sanity_val_steps of an evaluation before training, whose measures nobody keeps.
  void check_sanity();

 private:
  const RunParts run_;
};

}  // namespace millrace::trainer::detail

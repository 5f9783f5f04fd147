// RunParts: what the parts of one call of fit() share.
//
// Each part has its own thing to do: RunSaves the state and its checkpoints, EpochTraining an
// epoch's steps, RunEvaluation the measures; FitRun owns what is here and calls them in order.
#pragma once

#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/loop/replica_group.h"
#include "trainer/detail/loop/run_output.h"
#include "trainer/detail/loop/run_stop.h"
#include "trainer/detail/loop/run_weights.h"
#include "trainer/fit.h"

namespace millrace::trainer::detail {

/// All borrowed.
struct RunParts {
  Processes& processes;
  const FitInput& input;
  const TrainOptions& options;
  RunStop& stop;
  RunOutput& output;
  ReplicaGroup& group;
  RunWeights& weights;
};

}  // namespace millrace::trainer::detail

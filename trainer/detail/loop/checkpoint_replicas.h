// CheckpointReplicas: the replicas of evaluate() and predict(), with a checkpoint's weights.
#pragma once

#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/loop/replica_group.h"
#include "trainer/evaluate.h"
#include "trainer/safetensors.h"

namespace millrace::trainer::detail {

struct CheckpointReplicas {
  /// Loads the checkpoint or weights file `options.weights` on process 0 and copies it to all.
  /// Memory is allocated after it was found to fit the model. Tied weights that differ in a file
  /// cause a warning. Throws: as read_checkpoint_model() and load_weights().
  CheckpointReplicas(Processes& processes, const EvalInput& input, const EvalOptions& options);

  ReplicaGroup group;

 private:
  CheckpointReplicas(Processes& processes, const EvalInput& input, const EvalOptions& options,
                     const Safetensors& file);
};

}  // namespace millrace::trainer::detail

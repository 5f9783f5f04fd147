// LoadedGroup: the replicas that evaluate() and predict() work with, a checkpoint's weights in
// them.
#pragma once

#include "trainer/detail/processes.h"
#include "trainer/detail/replica_group.h"
#include "trainer/evaluate.h"
#include "trainer/safetensors.h"

namespace millrace::trainer::detail {

struct LoadedGroup {
  /// Loads the checkpoint or weights file that `options` names, on process 0, and gives it to all;
  /// memory is taken when it has been
  /// found to fit the model. Ties that the file does not hold to are warned of. Throws: as
  /// read_checkpoint_model() and load_weights().
  LoadedGroup(Processes& processes, const EvalInput& input, const EvalOptions& options);

  ReplicaGroup replicas;

 private:
  LoadedGroup(Processes& processes, const EvalInput& input, const EvalOptions& options,
              const Safetensors& file);
};

}  // namespace millrace::trainer::detail

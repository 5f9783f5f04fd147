// LoadedGroup: the replicas that evaluate() and predict() work with, a checkpoint's weights in
// them.
#pragma once

#include "trainer/detail/replica_group.h"
#include "trainer/evaluate.h"

namespace millrace::trainer::detail {

struct LoadedGroup {
  /// Loads the checkpoint or weights file that `options` names. Ties that the file does not hold to
  /// are warned of. Throws: as load_checkpoint_model() and load_weights().
  LoadedGroup(const EvalInput& input, const EvalOptions& options);

  ReplicaGroup replicas;
};

}  // namespace millrace::trainer::detail

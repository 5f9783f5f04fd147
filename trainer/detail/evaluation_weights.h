// The weights that evaluate() and predict() work with.
#pragma once

#include "trainer/detail/replica_group.h"
#include "trainer/evaluate.h"

namespace millrace::trainer::detail {

/// Loads the checkpoint or weights file that `options` names, for all replicas. Ties that the file
/// does not hold to are warned of. Throws: as load_checkpoint_model() and load_weights().
void load_for_evaluation(const EvalOptions& options, const Model& model, ReplicaGroup& group);

}  // namespace millrace::trainer::detail

// checkpoint_files: a run's state and tensors as the files of a checkpoint.
#pragma once

#include "trainer/checkpoint.h"
#include "trainer/detail/store/checkpoint_folder.h"

namespace millrace::trainer::detail {

/// Lifetime: the tensors' values are borrowed until the files are written. Throws: Corrupt if the
/// model has a value that is not finite.
CheckpointFiles checkpoint_files(const TrainState& state, const CheckpointTensors& tensors);

}  // namespace millrace::trainer::detail

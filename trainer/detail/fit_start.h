// Where a run starts: its options checked, and a checkpoint's state taken over.
#pragma once

#include <string>

#include "trainer/checkpoint.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// Throws: InvalidArgument.
void check_options(const TrainOptions& options);

/// The schedule, its rate multiplied by the number of devices where that is asked for.
ScheduleOptions scaled_schedule(const TrainOptions& options, int world);

/// Loads the checkpoint at `path` into `tensors`; gives its state with what is this run's own in
/// `fresh`. What differs and may is warned of, with both values. Throws: as load_checkpoint();
/// InvalidArgument for another optimizer's, for shards that hold something else than they did, and
/// in mid-epoch for any other input.
TrainState resume_from(const std::string& path, const TrainState& fresh,
                       const CheckpointTensors& tensors, const TrainOptions& options);

}  // namespace millrace::trainer::detail

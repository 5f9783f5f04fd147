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
/// `fresh`. Throws: as load_checkpoint(); InvalidArgument for another optimizer's.
TrainState resume_from(const std::string& path, const TrainState& fresh,
                       const CheckpointTensors& tensors, const Log& log);

}  // namespace millrace::trainer::detail

// Where a run starts: its options checked and shared, and a checkpoint's state taken over.
#pragma once

#include <string>

#include "trainer/checkpoint.h"
#include "trainer/detail/processes.h"
#include "trainer/fit.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// The options that this process runs by: those given, but what process 0 alone decides, writes and
/// says is left out elsewhere. Throws: InvalidArgument for options that cannot be, and on every
/// process for such as differ between processes, naming the first.
TrainOptions settle_options(Processes& processes, const FitInput& input,
                            const TrainOptions& options);

/// Steps in an epoch: options.steps_per_epoch, else those of the process whose feed gives most; 0
/// where nobody knows. The same on every process.
std::int64_t settle_steps_per_epoch(Processes& processes, const Feed& train,
                                    const TrainOptions& options);

/// The schedule, its rate multiplied by the number of replicas where that is asked for.
ScheduleOptions scaled_schedule(const TrainOptions& options, int world);

/// Loads the checkpoint at `path` into `tensors`; gives its state with what is this run's own, of
/// so many processes, in `fresh`. What differs and may is warned of, with both values. Throws: as
/// load_checkpoint(); InvalidArgument for another optimizer's, for shards that hold something else
/// than they did, and in mid-epoch for any other input or number of processes.
TrainState resume_from(const std::string& path, const TrainState& fresh, int processes,
                       const CheckpointTensors& tensors, const TrainOptions& options);

}  // namespace millrace::trainer::detail

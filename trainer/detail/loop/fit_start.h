// The start of a run: options are checked and compared, a checkpoint's state is loaded.
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint.h"
#include "trainer/detail/collectives/processes.h"
#include "trainer/fit.h"
#include "trainer/schedule.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// The options that this process runs with: `options`, on processes other than 0 without what only
/// process 0 decides, writes and logs. Throws: InvalidArgument for options that are not valid, as a
/// group of parameters that is the first of none, and
/// on every process for options that differ between processes, naming the first.
TrainOptions settle_options(Processes& processes, const FitInput& input,
                            const TrainOptions& options);

/// What a checkpoint keeps of them: the program's own description, else that of `options`.
std::vector<Setting> saved_settings(const TrainOptions& options);

/// Steps in an epoch: options.steps_per_epoch, else of the process whose feed has most; 0 if
/// unknown. The same on every process. Warns if a schedule that goes by them was given others than
/// the feed has.
std::int64_t settle_steps_per_epoch(Processes& processes, const Feed& train,
                                    const TrainOptions& options, const Schedule& schedule);

/// The schedule over the rule's rate: the given one, multiplied by the number of replicas with
/// options.scale_lr, or the default for `batch_size` samples on each replica.
Schedule make_schedule(const TrainOptions& options, const Model& model, std::int64_t batch_size,
                       int world);

/// Loads the checkpoint at `path` into `tensors` and returns its state, with seed, world size,
/// monitor, input and options from this run's `fresh`. Permitted differences are logged as a
/// warning with both values. Throws: as load_checkpoint(); InvalidArgument for another optimizer,
/// for shards whose content has changed, for best epochs that cannot be compared with this run's
/// and would be replaced (resumed_best.h), and in mid-epoch for any other input, number of
/// processes or setting of scope kRun. Settings of scope kStart may differ: a line says which do.
TrainState resume_from(const std::string& path, const TrainState& fresh, const Topology& topology,
                       const CheckpointTensors& tensors, const TrainOptions& options);

}  // namespace millrace::trainer::detail

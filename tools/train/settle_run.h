// settle_run: what a run's options leave open, from its folder, its data and the run that it
// continues. Process 0 looks; the others are told.
//
// Threads: one at a time.
#pragma once

#include "tools/command.h"
#include "tools/train/run_classes.h"
#include "tools/train/train_command_options.h"
#include "trainer/cluster.h"

namespace millrace::tools {

/// Resolves the run folder, the checkpoint to continue, the limits, the outputs with their names,
/// and how pictures are fitted. `classes` is of `options`. A collective. Throws, on all processes:
/// InvalidArgument, also for places that cannot be read or written; as counting classes.
void settle_run(TrainCommandOptions& options, RunClasses& classes, trainer::Cluster& cluster,
                const CommandContext& context);

}  // namespace millrace::tools

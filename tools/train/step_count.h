// settle_steps: how many steps an epoch and a run have, for schedules and warm-ups that need it.
//
// Threads: one at a time.
#pragma once

#include <cstdint>

#include "tools/command.h"
#include "tools/train/train_command_options.h"
#include "trainer/cluster.h"
#include "trainer/model.h"

namespace millrace::tools {

/// Tells the optimisation what only the run knows. `train_samples`: of an epoch, of all processes;
/// 0: unknown, then the shards are read if a schedule needs the steps and they are local. A
/// collective: process 0 counts. Throws: InvalidArgument for remote shards; as reading.
void settle_steps(TrainCommandOptions& options, const trainer::Model& model,
                  std::int64_t train_samples, trainer::Cluster& cluster,
                  const CommandContext& context);

}  // namespace millrace::tools

// The first lines of a run: its model, images, devices and samples per step, and warnings of what
// its user may not have intended: validation shards that are trained on, limits without effect.
//
// Threads: functions of their arguments.
#pragma once

#include "tools/command.h"
#include "tools/train/train_command_options.h"
#include "trainer/model.h"

namespace millrace::tools {

/// Reads the first sample. Requires: settled options. Throws: Cancelled.
void print_run_header(const TrainCommandOptions& options, const trainer::Model& model,
                      const CommandContext& context);

}  // namespace millrace::tools

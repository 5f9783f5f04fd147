// fit_observed: trains, and brings what happens to whoever looks: the terminal's bar, JSON lines,
// the run's page and files, uploads, --metrics-listen, and the log where the run is stopped.
//
//   const auto result = fit_observed({.options = options, .fit = {...}, ..., .context = context});
//
// Threads: call from one thread.
#pragma once

#include "tools/command.h"
#include "tools/metrics_watch.h"
#include "tools/run_processes.h"
#include "tools/train/first_batch_line.h"
#include "tools/train/run_classes.h"
#include "tools/train/run_folder_writer.h"
#include "tools/train/run_input.h"
#include "tools/train/train_command_options.h"
#include "trainer/evaluation_details.h"
#include "trainer/fit.h"

namespace millrace::tools {

/// Borrowed; the options are settled.
struct ObservedRun {
  const TrainCommandOptions& options;
  const trainer::FitInput& fit;
  const RunInput& input;
  const trainer::DetailedObjective& objective;
  RunClasses& classes;
  const RunProcesses& processes;
  FirstBatchLine& first_batch;
  RunFolderWriter* files = nullptr;  ///< null: this process writes none
  RunWatch* watch = nullptr;         ///< null: without --metrics-listen
  const CommandContext& context;
};

/// Throws: as trainer::fit(); Cancelled for a run that a signal ended, which the log says what it
/// has saved of; Io for checkpoints that were not uploaded.
trainer::FitResult fit_observed(const ObservedRun& run);

}  // namespace millrace::tools

// What several runs' page has beside their curves: the runs, their epochs, and the options in which
// they differ, as tables.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "tools/report/run_record.h"

namespace millrace::tools {

/// A row a run: how it ended, its measure, losses, time, devices and what limits it. Runs of
/// different tasks or measures have tables of their own, and why is said.
std::string comparison(const std::vector<RunRecord>& runs);
/// Of one run its losses and measures by epoch; of several the measure that decided, side by side.
std::string epoch_tables(const std::vector<RunRecord>& runs);
/// Options, versions and data that are not the same in all runs; of a component that all of them
/// have, only those of its parameters.
std::string option_differences(const std::vector<RunRecord>& runs);

}  // namespace millrace::tools

// Parts of a run's page, each as HTML, and what they read a record's values by.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tools/report/run_record.h"

namespace millrace::tools {

/// The member called `name`; null if there is none.
const RecordJson& member(const RecordJson& json, const char* name);
/// A text without its quotes, everything else as JSON.
std::string json_value_text(const RecordJson& value);
/// At most so many of a long list, evenly, the last one among them.
std::vector<const RunEvent*> some_of(const std::vector<RunEvent>& all, std::size_t most);
/// "These are 16 of 40 epochs, evenly." if there are more than `most`.
std::string left_out_text(std::size_t all, std::size_t most);
/// "epoch 3", or "epoch 3, from step 41" where a resumed run has continued it.
std::string epoch_name(const RunEvent& epoch);
/// Whether a measure is a share, which is said in percent.
bool is_share(const std::string& measure);
std::string measure_text(const std::string& name, double value);
/// "failed", "all epochs done", "stopped by max-time", as HTML.
std::string run_state(const RunRecord& run);
/// "12.3 s", "12.3 s in 2 sessions".
std::string run_time_text(const RunRecord& run);
/// Seconds of training, over all epochs.
double train_seconds(const RunRecord& run);

/// A figure a quantity, over the run's steps; of several runs each has a colour of its own.
std::string curves(const std::vector<RunRecord>& runs);

// Each requires at least one epoch.

/// Where the time went: of a step, by device, of an epoch.
std::string time_of(const RunRecord& run);
/// What became of the samples: of each epoch's training and evaluation, and those that were
/// skipped.
std::string ledger_of(const RunRecord& run);

}  // namespace millrace::tools

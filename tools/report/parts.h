// Parts of a run's page, each as HTML, and what they read a record's values by.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/report/run_record.h"

namespace millrace::tools {

/// The member called `name`; null if there is none.
const RecordJson& member(const RecordJson& json, const char* name);
/// A text without its quotes, everything else as JSON.
std::string json_value_text(const RecordJson& value);
/// At most `most` places of a list of so many, evenly, the last one among them.
std::vector<std::size_t> some_places(std::size_t all, std::size_t most);
/// Those of a list.
std::vector<const RunEvent*> some_of(const std::vector<RunEvent>& all, std::size_t most);
/// "These are 16 of 40 epochs, evenly." if there are more than `most`.
std::string left_out_text(std::size_t all, std::size_t most);
/// "epoch 3", or "epoch 3, from step 41" where a resumed run has continued it.
std::string epoch_name(const RunEvent& epoch);
/// How a measure's values are said: shares in percent.
std::string (*measure_format(const std::string& measure))(double);
/// The best value that an epoch has of a measure, and that epoch; nullopt if none has one.
std::optional<std::pair<double, double>> best_of(const RunRecord& run, const std::string& measure);
/// "val_top1", as the run says or would have decided; empty: no epoch is whole.
std::string monitor_of(const RunRecord& run);
/// The best value of that, and its epoch, as the run says; of one that has not ended, so far.
std::optional<std::pair<double, double>> best_epoch_of(const RunRecord& run);
/// "failed", "all epochs done", "stopped by max-time", as HTML.
std::string run_state(const RunRecord& run);
/// Steps that were skipped since their loss or gradients were not finite, of how many.
struct SkippedSteps {
  double skipped = 0;
  double samples = 0;  ///< in these
  double steps = 0;    ///< that the skipped ones are of
};
SkippedSteps skipped_steps(const RecordJson& epoch);
SkippedSteps skipped_steps(const RunRecord& run);
/// "12.3 s", "12.3 s in 2 sessions", "at least 12.3 s in 3 sessions".
std::string run_time_text(const RunRecord& run);
/// "2 processes × 4", of a run.json or one of its sessions; "–": it does not say.
std::string devices_text(const RecordJson& start);
/// Seconds of training, over all epochs.
double train_seconds(const RunRecord& run);

/// The measures that any run has, in their order, without those of single classes.
std::vector<std::string> measures_of(const std::vector<RunRecord>& runs);
/// A figure a quantity, over the run's steps; of several runs each has a colour of its own.
std::string curves(const std::vector<RunRecord>& runs);

// Each requires at least one epoch.

/// Where the time went: of a step, by device, of an epoch.
std::string time_of(const RunRecord& run);
/// What became of the samples: of each epoch's training and evaluation, and those that were
/// skipped.
std::string ledger_of(const RunRecord& run);

}  // namespace millrace::tools

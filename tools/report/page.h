// The page of one run or of several: a single HTML document without anything to fetch.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "tools/report/run_record.h"

namespace millrace::tools {

/// Requires: at least one run.
std::string report_page(const std::vector<RunRecord>& runs);

/// What limits a run and what to do about it, of an epoch's event; empty without a verdict.
struct Advice {
  std::string verdict;  ///< "Epoch 3 is input-bound by decode: ..."
  std::string what_to_do = {};
};
Advice advice_of(const RecordJson& epoch);

}  // namespace millrace::tools

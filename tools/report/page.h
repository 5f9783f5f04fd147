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

/// What limits a run and what to do about it; empty without a verdict.
struct Advice {
  std::string limit = {};  ///< "input-bound by decode"
  /// "2 of 3 epochs (66.7 % of the time of training) were input-bound by decode. ..."
  std::string verdict = {};
  std::string what_to_do = {};
};
Advice advice_of(const RunRecord& run);

}  // namespace millrace::tools

// What a run's evaluation.json and first-batch.json say, as parts of its page: which classes are
// taken for which, each class's figures, how far probabilities can be relied on, and the samples
// that are furthest from what they should be.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "tools/report/run_record.h"

namespace millrace::tools {

/// Empty if the run has none.
std::string evaluation_of(const RunRecord& run);
std::string first_batch_of(const RunRecord& run);

/// A page of an evaluation alone, of the run's `evaluation`; `measures` is text.
std::string evaluation_page(const RunRecord& run, const std::string& measures);

/// The style sheet of a page with these parts: the report's, and theirs.
std::string evaluation_style();

}  // namespace millrace::tools

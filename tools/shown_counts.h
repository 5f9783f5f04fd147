// with_shown_counts: counts the samples of an epoch, and shows meanwhile how far it is.
//
// Threads: one at a time.
#pragma once

#include "pipeline/options.h"
#include "trainer/progress_bar.h"

namespace millrace::tools {

/// pipeline::with_counts(), which reads indexes, and the headers of shards without one. `terminal`
/// is borrowed; null: none.
pipeline::PipelineOptions with_shown_counts(pipeline::PipelineOptions options,
                                            trainer::TerminalLine* terminal);

}  // namespace millrace::tools

// EpochLength: how long an epoch is, where that is known before it is read.
//
//   options = with_counts(std::move(options));  // looks at the indexes now; a pipeline would later
//   if (const auto batches = batches_per_epoch(options)) schedule(*batches);
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "pipeline/options.h"

namespace millrace::pipeline {

/// `options` with `counts` as a pipeline of them has them: looked up, when `indexed` asks for it,
/// and left out where whole shards are divided. A damaged index, unless faults.require_index has it
/// a fault, is warned of and leaves none. Throws: as wds::sample_counts() does.
PipelineOptions with_counts(PipelineOptions options);

/// Samples of an epoch in this process, those included that faults will cost. Requires: what
/// with_counts() gave. Nothing where nobody knows.
std::optional<std::int64_t> samples_per_epoch(const PipelineOptions& options);
/// Batches of an epoch in this process. Fewer come where the policy skips samples that cannot be
/// read.
std::optional<std::int64_t> batches_per_epoch(const PipelineOptions& options);

}  // namespace millrace::pipeline

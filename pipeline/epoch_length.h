// The length of an epoch, where it is known before the epoch is read.
//
//   options = with_counts(std::move(options));  // reads the indexes, which the pipeline then need
//   not if (const auto batches = batches_per_epoch(options)) schedule(*batches);
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "pipeline/options.h"

namespace millrace::pipeline {

/// `options` with `counts` as the pipeline will use them: read from the indexes if `indexed` is set
/// and they are null; null where whole shards are divided among streams. A damaged index whose
/// count faults.samples_of does not know is logged and leaves them null, or is a fault with
/// faults.require_index. Clears `indexed` for shards on the network without indexes. Throws: as
/// wds::sample_counts().
PipelineOptions with_counts(PipelineOptions options);

/// Samples of an epoch in this process, including those that faults will cost; nullopt where
/// unknown. Requires: options from with_counts().
std::optional<std::int64_t> samples_per_epoch(const PipelineOptions& options);
/// Batches of an epoch in this process; nullopt where unknown. There are fewer if the fault policy
/// skips a lost shard, or stops. Requires: options from with_counts().
std::optional<std::int64_t> batches_per_epoch(const PipelineOptions& options);

}  // namespace millrace::pipeline

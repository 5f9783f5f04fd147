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

/// Slots of a step of all devices of all processes.
std::int64_t global_batch_size(const PipelineOptions& options);

// Each includes samples that faults will cost, is nullopt where unknown, and requires options from
// with_counts().

/// Samples of all processes, whatever batch.uneven leaves out of them.
std::optional<std::int64_t> global_samples_per_epoch(const PipelineOptions& options);
/// Samples in this process, likewise.
std::optional<std::int64_t> samples_per_epoch(const PipelineOptions& options);
/// Steps that each device of each process takes.
std::optional<std::int64_t> steps_per_epoch(const PipelineOptions& options);
/// Batches in this process: those of its devices' steps, except that a single process has no fully
/// masked ones. It then has fewer if the fault policy skips a lost shard, or stops.
std::optional<std::int64_t> batches_per_epoch(const PipelineOptions& options);

/// Throws: InvalidArgument with the numbers if batch.uneven is kError and the epoch does not divide
/// by the global batch, or its length is unknown; if it is kDrop and no step would be left.
void check_even(const PipelineOptions& options);

}  // namespace millrace::pipeline

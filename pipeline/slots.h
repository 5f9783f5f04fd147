// Slots: which of an epoch's slots a batch has, and the streams that fill them: for the pipeline,
// and for whoever prints or counts them.
//
// Slot k of an epoch has a sample of stream k mod streams, and belongs to replica k mod W, where W
// = processes * devices is the world size and replicas are counted by rank. So a replica has the
// same samples in the same order however the replicas are spread over processes. Where W does not
// divide the streams, or the user splits the shards, process p has the slots p + i * processes,
// which its devices take in turn (wds::stream_stripe).
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>

#include "pipeline/batch.h"
#include "pipeline/options.h"
#include "wds/sample_stream.h"

namespace millrace::pipeline {

/// More streams than this, of all processes together, are a mistake: each has a reader and buffers.
inline constexpr int kMostStreams = 1 << 16;

/// The streams of the options' shards, of which the caller sets `stream`, `epoch` and
/// `max_samples`. How shards are read (`shard`) is left to the caller, too.
wds::StreamSpec stream_spec(const PipelineOptions& options);

/// The number of processes that fixes the seeds of streams' draws (ShuffleOptions::seed_processes);
/// 0: none does.
int seed_processes(const PipelineOptions& options);

/// The slots of batch `index` of `split.topology.process`, where batches have `size` slots.
SlotNumbers slots_of_batch(const wds::SplitOptions& split, std::int64_t size, std::int64_t index);

/// Whose slot `slot` is.
struct SlotOwner {
  int process = 0;
  int device = 0;
};
SlotOwner owner_of_slot(const wds::SplitOptions& split, std::uint64_t slot);

}  // namespace millrace::pipeline

// The length of an epoch, where it is known before the epoch is read.
//
//   options = with_counts(std::move(options));  // reads indexes and headers; the pipeline need not
//   if (const auto batches = batches_per_epoch(options)) schedule(*batches);
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "io/base/error.h"
#include "io/base/topology.h"
#include "pipeline/options.h"
#include "wds/stream_position.h"

namespace millrace::pipeline {

/// `options` with `found` as the pipeline will use it. The counts, unless they are given, come from
/// the indexes if `indexed` is set, and from scans of the other shards if `scan` is; null where
/// whole shards are divided among streams, and a warning says what it costs to do so without a
/// scan. A damaged index whose count faults.samples_of does not know counts as none, or is a fault
/// with faults.require_index. Clears `indexed` for shards on the network without indexes. Throws:
/// NotFound where the counts say that there is no sample, unless damage has cost some; as
/// wds::indexed_counts(), wds::scan_shards(), wds::find_contents() and wds::find_selection().
PipelineOptions with_counts(PipelineOptions options);

/// Slots of a step of all devices of all processes.
std::int64_t global_batch_size(const PipelineOptions& options);

/// Whether EpochOptions::samples, where that is more than there are, is reached by repeating some.
bool repeats_samples(const PipelineOptions& options);

// Each includes samples that faults will cost, is nullopt where unknown, and requires options from
// with_counts(). An epoch that turns out to have other samples than these, beyond those that faults
// were seen to cost, is a fault itself.

/// Samples of all processes, whatever batch.uneven leaves out of them.
std::optional<std::int64_t> global_samples_per_epoch(const PipelineOptions& options);
/// Samples that ShuffleOptions::where leaves out, of the set, or of all sets of a mix: they are not
/// among those above.
std::uint64_t filtered_per_epoch(const PipelineOptions& options);
/// Samples in this process, likewise.
std::optional<std::int64_t> samples_per_epoch(const PipelineOptions& options);
/// Steps that each device of each process takes.
std::optional<std::int64_t> steps_per_epoch(const PipelineOptions& options);
/// Batches in this process: those of its devices' steps. A single process has fewer if the fault
/// policy skips a lost shard, or stops.
std::optional<std::int64_t> batches_per_epoch(const PipelineOptions& options);

/// Samples of an epoch that were promised and that there were, in some of its streams.
struct EpochSamples {
  std::uint32_t epoch = 0;
  std::uint64_t promised = 0;
  std::uint64_t found = 0;
  wds::LostSamples lost = {};  ///< to faults that were reported

  /// Whether there were those promised but for the lost ones, some of which others may replace.
  bool add_up() const {
    return found <= promised && (lost.more || found + lost.promised() >= promised);
  }
};
/// The fault of an epoch with another number of samples; `topology.processes` are named if there
/// are several.
Error wrong_samples(const EpochSamples& samples, const Topology& topology);

/// Throws: InvalidArgument if samples are skipped or taken that are not counted, or none is left.
void check_ranges(const PipelineOptions& options);

/// Throws: InvalidArgument if samples are to be repeated where there are none, as far as is known:
/// by a set of a mix, or in a stream of a source that has fewer samples than streams.
void check_repeats(const PipelineOptions& options);

/// Throws: InvalidArgument with the numbers if batch.uneven is kError and the epoch does not divide
/// by the global batch, or its length is unknown; if it is kDrop and no step would be left.
void check_even(const PipelineOptions& options);

}  // namespace millrace::pipeline

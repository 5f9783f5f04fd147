// The options of a pipeline, as plain structs.
//
// Shards (or the source), their counts (PipelineOptions::found), split, shuffle, epochs and batch
// size fix which sample is in which slot; fields and fault policy what is made of it.
// ResourceOptions change how fast batches come, never a bit of them.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/base/trace.h"
#include "io/base/words.h"
#include "io/opener.h"
#include "pipeline/fields.h"
#include "pipeline/mixup.h"
#include "pipeline/position.h"
#include "pipeline/sample_source.h"
#include "wds/fault_ledger.h"
#include "wds/found_shards.h"
#include "wds/join.h"
#include "wds/mix.h"
#include "wds/sample_stream.h"

namespace millrace::decode {
class DecodedCache;
}

namespace millrace::pipeline {

/// What to do with an epoch's last samples if they do not fill a global batch, which is a batch of
/// each device of each process. In any case all devices take the same number of steps.
enum class Uneven {
  kPad,      ///< mask the slots without a sample
  kPartial,  ///< the same, but each process's last batch has only as many slots as samples
  kDrop,     ///< drop the incomplete global batch, in every process at the same step
  kError,    ///< refuse the epoch before it begins
};
inline constexpr std::array<Word<Uneven>, 4> kUnevenWords = {{{"pad", Uneven::kPad},
                                                              {"partial", Uneven::kPartial},
                                                              {"drop", Uneven::kDrop},
                                                              {"error", Uneven::kError}}};

struct BatchOptions {
  /// N, the slots of a batch, at most 2^24. Required.
  std::int64_t size = 0;
  /// The size of a global batch follows from split.topology. Ignored with EpochOptions::batches.
  Uneven uneven = Uneven::kPad;
  /// Slots whose samples faults cost take the process's next samples, so that all batches but an
  /// epoch's last ones are whole: for losses over a batch. Otherwise they are masked where they
  /// are. The number of batches is the same: what faults cost is masked at the epoch's end.
  bool fill = false;
};

struct EpochOptions {
  /// The first epoch to run; epochs' numbers key their shuffles.
  std::uint32_t first = 0;
  /// Epochs to run. 0: no end.
  std::uint32_t count = 1;
  /// Samples of an epoch over all processes, exactly, in equal shares for each stream, which is cut
  /// at its share or repeated up to it. 0: as many as there are.
  std::int64_t samples = 0;
  /// Batches of an epoch in this process, exactly: the rest is cut off, or fully masked batches are
  /// added, so that processes with unequal shards take the same number of steps. 0: as many as
  /// there are.
  std::int64_t batches = 0;
  /// Passes over the samples in an epoch: n times every sample. Where the counts are known, each
  /// pass begins at the slot behind the last one of the pass before, on every layout
  /// (wds::passes_go_on()). With `samples` an epoch ends at whichever comes first, so that 1 cuts
  /// it short and never repeats it. Of a mix, each set has so many. 0: one, or as many as `samples`
  /// takes.
  std::uint32_t passes = 0;
  /// Draws shards with replacement, without end; of a mix, each set its own. Requires: `samples` or
  /// `batches`.
  bool resampled = false;
};

/// While the consumer waits for batches, a pipeline tries more of what keeps it waiting, and keeps
/// what helps: blocks read ahead, I/O threads, decoding threads that wait. Never the order, and
/// never more than memory_bound_bytes().
struct AutotuneOptions {
  bool on = true;
  /// Whether the log says, after the first epoch that its consumer waited for, what a cache of
  /// decoded pictures would bring. False for a consumer that only passes batches on, whose waits
  /// say little: it asks Statistics::about_pictures().
  bool advises = true;
  /// How often it looks at what limits. 0: at every batch.
  std::chrono::milliseconds interval{500};
  /// How many threads and I/O threads there may be. 0: those that ResourceOptions sets, or where it
  /// leaves the number open, 4 times the cores and 64. At most kMaxThreads.
  int most_threads = 0;
  int most_io_threads = 0;
};

/// Memory for the arrays of one batch: `bytes` from a 64-byte boundary on, which are the batch's
/// until the pointer's last copy is gone. Called for each batch, from any thread; it must neither
/// wait for the consumer nor call the pipeline. What it throws ends the pipeline.
using AllocateBuffer = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

struct ResourceOptions {
  /// Threads of the pipeline's own task arena: decode and transforms. 0: usable_cores() at first.
  /// At most kMaxThreads.
  int threads = 0;
  /// Threads that wait for disk and network, never more than this process has streams. 0: at most
  /// 16 at first. At most kMaxThreads.
  int io_threads = 0;
  /// Finished batches kept ready for the consumer, at most 65,536. What all batches take must fit
  /// into usable_memory().
  int prefetch = 4;
  /// Ceiling of what the pipeline holds: shuffle buffers, encoded blocks and batches, including one
  /// that the consumer holds. 0: what the other options add up to (pipeline/README.md has the sum).
  std::size_t memory_budget_bytes = 0;
  AutotuneOptions autotune = {};
  /// Keeps the pictures of all fields as they were decoded, so that each is decoded once
  /// (decode/decoded_cache.h): for a set that is small when decoded. Several pipelines may share
  /// it. Null: none.
  std::shared_ptr<decode::DecodedCache> decoded = nullptr;
  /// Where batches lie: pinned memory, for copies to a device that go on beside the next step
  /// (batch_buffers() says how much). Null: memory of the pipeline's own, used again and again.
  AllocateBuffer allocate = nullptr;
};

/// Several data sets in one pipeline, each with its share of the samples (wds/mix.h).
struct MixOptions {
  struct Part {
    double weight = 1;            ///< its share is this over the sum of all
    std::size_t num_shards = 0;   ///< of PipelineOptions::shards, behind those of the parts before
    wds::SampleRange range = {};  ///< which of its samples
  };
  /// Empty: no mix.
  std::vector<Part> parts = {};
  wds::MixEnd end = wds::MixEnd::kStop;
};

struct PipelineOptions {
  /// Expanded urls, one per shard; of a mix, one set's behind the other's.
  std::vector<std::string> shards = {};
  /// With it, the order is kMillrace, and an epoch is what MixOptions::end says of sets that have
  /// EpochOptions::passes each, or EpochOptions::samples at most, or with kRepeat and no passes
  /// exactly. The shards' counts must be known (indexes, a scan), unless they are resampled.
  MixOptions mix = {};
  /// Lists as long as `shards`: shard i of each completes the samples of shard i, by their keys
  /// (wds/join.h).
  std::vector<std::vector<std::string>> joins = {};
  /// The part of the shards' samples, in their order, that an epoch takes its samples from; before
  /// they are shuffled. Of a mix, of each set alone (MixOptions::Part::range). Unless it is all,
  /// the counts must be known, and streams get equal shares of the samples.
  wds::SampleRange range = {};
  /// Where samples come from instead of `shards`, which are then empty. Null: the shards.
  std::shared_ptr<const SampleSource> source = nullptr;
  wds::SplitOptions split = {};
  wds::ShuffleOptions shuffle = {};
  std::vector<FieldSpec> fields = {};
  BatchOptions batch = {};
  MixUpOptions mixup = {};
  EpochOptions epochs = {};
  ResourceOptions resources = {};
  wds::FaultPolicy faults = {};
  /// Uses the index beside each shard: every sample is checked against it, and if all shards have
  /// one, streams get equal shares of the samples, to within one, and there may be fewer shards
  /// than streams. On the network, one shard without an index means that no index is used. A
  /// damaged index is logged: its shard is read without it, and whole shards are divided among
  /// streams if its count is lost; with faults.require_index it is a fault. Users' splitters,
  /// resampling and Order::kWebDataset always divide whole shards.
  bool indexed = false;
  /// Scans the headers of shards that have no index when the pipeline is built, so that streams get
  /// equal shares as with indexes (wds/shard_scan.h). Not where a shard is a pipe, which can be
  /// read only once, or with faults.require_index: then, and without it, whole shards are divided.
  /// A shard's damage is counted as the samples it costs, and reported when it is read.
  bool scan = true;
  /// The folder in which scans are kept (wds::default_scan_cache()); empty: they are not.
  std::string scan_cache = {};
  /// What is known of `shards`, not said by anybody: with_counts() fills it in, by the indexes when
  /// `indexed` and by scans when `scan`; the pipeline does, if nobody has. `found.counts` may be
  /// given.
  wds::FoundShards found = {};
  /// Null: a UrlOpener with default options.
  std::shared_ptr<const io::Opener> opener = nullptr;
  /// Ends the pipeline: next() throws Cancelled.
  std::stop_token stop = {};
  Log log = {};
  /// Records what the stages do and how full the queues are; borrowed. Null: nothing does.
  Tracer* trace = nullptr;
  /// Where to start: the position of a batch of a pipeline with the same options. Null: the
  /// beginning of epochs.first.
  std::shared_ptr<const Position> resume = nullptr;
};

}  // namespace millrace::pipeline

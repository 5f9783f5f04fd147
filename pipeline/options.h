// Options: everything that a pipeline is built from, as plain structs.
//
// Only shards, split, shuffle, epochs and the batch size fix what a batch holds. Threads, prefetch
// depth and memory budget change how fast it comes, never a bit of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/opener.h"
#include "pipeline/fields.h"
#include "pipeline/position.h"
#include "pipeline/sample_source.h"
#include "wds/fault_ledger.h"
#include "wds/sample_stream.h"

namespace millrace::pipeline {

struct BatchOptions {
  /// N, the slots of a batch. Required.
  std::int64_t size = 0;
  /// The last batch of an epoch is as short as it is, instead of full and masked.
  bool partial = false;
  /// The last batch of an epoch is dropped unless it is full.
  bool drop_last = false;
};

struct EpochOptions {
  /// The first epoch to run: it keys the shuffles.
  std::uint32_t first = 0;
  /// Epochs to run; 0 is without end.
  std::uint32_t count = 1;
  /// Samples in an epoch, over all processes: an equal share of each stream, which is cut there, or
  /// begins again until there. 0: as many as there are.
  std::int64_t samples = 0;
  /// Batches of an epoch in this process, exactly: cut, or filled up with fully masked batches. So
  /// processes with unequal shards take the same number of steps. 0: as many as there are.
  std::int64_t batches = 0;
  /// Draws shards with replacement, without end; needs `samples` or `batches`.
  bool resampled = false;
};

struct ResourceOptions {
  /// Threads of the pipeline's own task arena: decode and transforms. 0: usable_cores().
  int threads = 0;
  /// Threads that wait for disk and network. 0: one a stream of this process, at most 16.
  int io_threads = 0;
  /// Finished batches kept ready for the consumer.
  int prefetch = 4;
  /// Ceiling of what the pipeline holds: shuffle buffers, encoded blocks, batches, one of them in
  /// the consumer's hands. 0: what the other options ask for. See pipeline/README.md for the sum.
  std::size_t memory_budget_bytes = 0;
};

struct PipelineOptions {
  /// Expanded urls, one a shard.
  std::vector<std::string> shards = {};
  /// Where samples come from if not from shards, of which there are none then. Null: the shards.
  std::shared_ptr<const SampleSource> source = nullptr;
  wds::SplitOptions split = {};
  wds::ShuffleOptions shuffle = {};
  std::vector<FieldSpec> fields = {};
  BatchOptions batch = {};
  EpochOptions epochs = {};
  ResourceOptions resources = {};
  wds::FaultPolicy faults = {};
  /// Looks for the index beside each shard: every sample is checked against it, and where all
  /// shards have one, streams get equal shares of the samples, to within one, and there may be
  /// fewer shards than streams. On the network one shard without an index means that none is used.
  /// A damaged index is warned of: its shard is read without it, and whole shards are divided where
  /// its count is lost; faults.require_index makes it a fault.
  /// Users' splitters, resampling and Order::kWebDataset divide whole shards even so.
  bool indexed = false;
  /// Samples in each of `shards`. Null: from the indexes, when `indexed`.
  std::shared_ptr<const std::vector<std::uint64_t>> counts = nullptr;
  /// Null: a UrlOpener with default options.
  std::shared_ptr<const io::Opener> opener = nullptr;
  /// Ends the pipeline: next() throws Cancelled.
  std::stop_token stop = {};
  Log log = {};
  /// Where to go on, from a batch of a pipeline with the same options. Null: at epochs.first.
  std::shared_ptr<const Position> resume = nullptr;
};

}  // namespace millrace::pipeline

// Pipeline: from shards to batches, as a graph of reading, merging, decoding and ordering.
//
//   auto pipeline = Pipeline::Builder()
//       .shards("https://host/train-{000000..000639}.tar")
//       .split({.workers = 8})
//       .shuffle({.shards = true, .buffer_samples = 10'000, .seed = 7})
//       .field(ImageField{.transforms = {...}, .dtype = decode::DType::kBFloat16})
//       .field(LabelField{.classes = 1000})
//       .batch({.size = 128})
//       .epochs({.count = 90})
//       .build();
//   do {
//     for (Batch batch; pipeline.next(batch);) { ... }  // one epoch
//   } while (!pipeline.finished());
//
// Samples that are not in shards come from a SampleSource (sample_source.h).
//
// For several devices (split.topology.devices) batches come in rounds, one for each device in turn:
// the samples of a round go to its batches one by one (slots.h).
//
// Epochs follow each other without a gap: while the consumer uses the last batches of one, or
// evaluates after it, the next one is read ahead up to the prefetch depth.
//
// Concurrency: reads on I/O threads, decodes in an arena of its own. Order: batches, and every bit
// in them, depend on the options alone (options.h), never on threads, depth or timing. Buffers: at
// most memory_bound_bytes(). Threads: next(), wait_for() and the destructor from one thread at a
// time; stop() and const members from any, but not beside the destructor.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/batch.h"
#include "pipeline/options.h"
#include "pipeline/statistics.h"
#include "wds/fault_ledger.h"

namespace millrace::pipeline {

/// What ResourceOptions::allocate is asked for.
struct BatchBuffers {
  std::size_t bytes = 0;    ///< of each
  std::int64_t number = 0;  ///< at most at once, but for those of batches that the consumer keeps
};

/// Of a pipeline of these options, without starting one. Throws: as Pipeline().
BatchBuffers batch_buffers(PipelineOptions options);

class Pipeline {
 public:
  class Builder;

  /// Checks the options, reads the indexes' counts where they are asked for, and starts to read.
  /// Throws: InvalidArgument, naming the option and the reason; as with_counts().
  explicit Pipeline(PipelineOptions options);
  /// Stops reading and decoding, also in the middle of an epoch, and waits for the threads: a
  /// sample's decoding at most. Batches that were handed out stay valid.
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  /// Waits for the next batch, puts it into `batch` and returns true. Returns false, with `batch`
  /// empty, at the end of an epoch, and always after the last one; the call after an epoch's end
  /// begins the next epoch. The buffer that `batch` held is released first. Throws: the first fault
  /// in the order of the batches; NotFound for an epoch without a sample; Cancelled after stop();
  /// the same again at every later call.
  bool next(Batch& batch);
  /// Waits until next() will not wait, at most for `timeout`, and returns whether it will not: for
  /// programs that look after something else between. It counts as time spent in next(). Threads:
  /// as next().
  bool wait_for(std::chrono::nanoseconds timeout);
  /// Makes the current and all later calls of next() throw Cancelled. Threads: any.
  void stop();
  /// Whether next() has returned false for the last epoch.
  bool finished() const;
  /// A batch without a valid slot, for a process whose epoch is over while others still step: of
  /// the full size, a copy of the values of the device's last full batch; zeros before the first.
  /// Requires: device < split.topology.devices. Throws: what ResourceOptions::allocate throws.
  Batch masked_batch(int device = 0) const;

  /// The names and shapes of a batch's fields, without data.
  const std::vector<BatchField>& fields() const;
  /// After the last batch handed out; after an epoch's end, the beginning of the next epoch.
  Position position() const;
  /// The same to be saved: in mid-epoch with Position::contents, for which pieces of each shard on
  /// this machine are read, once. Without where samples of the epoch were skipped: the shards may
  /// be mended before they are read on. Threads: any.
  Position position_to_save() const;
  Statistics statistics() const;
  /// What was read, emitted and skipped in the epoch of the last batch (or epoch end) handed out.
  /// Each epoch has its own ledger, and its own budget of faults.
  std::shared_ptr<const wds::FaultLedger> ledger() const;
  /// The options with every default filled in.
  const PipelineOptions& options() const;
  /// The most bytes that the pipeline may hold, from its options; within the budget, if one is set.
  std::size_t memory_bound_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Fills in PipelineOptions, one member a call.
class Pipeline::Builder {
 public:
  /// Adds a spec: brace pattern, `::` union, folder, or manifest.
  Builder& shards(std::string_view spec);
  /// Sets urls that are used as they are, in front of the specs'.
  Builder& shards(std::vector<std::string> urls);
  /// Adds a set to a mix of several, in place of shards(): the shards of `spec`, as shards() takes
  /// them, get the share `weight` of the samples. EpochOptions' passes and resampling are each
  /// set's.
  Builder& mix(double weight, std::string_view spec);
  /// What happens when one of the sets has no sample left.
  Builder& mix(wds::MixEnd end);
  /// Adds shards that complete those of shards() or mix(), by their samples' keys: as many, in the
  /// same order (wds/join.h).
  Builder& join(std::string_view spec);
  /// A source of samples, in place of shards.
  Builder& source(std::shared_ptr<const SampleSource> source);
  Builder& split(wds::SplitOptions split);
  Builder& shuffle(wds::ShuffleOptions shuffle);
  /// Leaves out the first `samples` of the shards' list, before it is shuffled.
  Builder& skip(std::uint64_t samples);
  /// Takes only the first `samples`, of those that skip() leaves. Requires: above 0.
  Builder& take(std::uint64_t samples);
  /// Adds a field; its name must be new.
  Builder& field(FieldSpec field);
  Builder& batch(BatchOptions batch);
  /// Mixes each batch's pictures with one another.
  Builder& mixup(MixUpOptions mixup);
  Builder& epochs(EpochOptions epochs);
  Builder& resources(ResourceOptions resources);
  Builder& faults(wds::FaultPolicy policy);
  /// Checks samples against the indexes beside the shards, and balances the streams by their
  /// counts.
  Builder& indexed(bool indexed = true);
  /// Whether shards without an index are scanned, and the folder in which scans are kept.
  Builder& scan(bool scan, std::string cache = {});
  Builder& opener(std::shared_ptr<const io::Opener> opener);
  /// Lifetime: borrowed; must outlive the pipeline.
  Builder& opener(const io::Opener& opener);
  Builder& stop(std::stop_token stop);
  Builder& log(Log log);
  /// Starts after the batch that `position` was taken from.
  Builder& resume(Position position);

  PipelineOptions& options() { return options_; }
  const PipelineOptions& options() const { return options_; }
  /// The options with the specs expanded. Throws: as expand_shards(), of which stop() ends a
  /// listing.
  PipelineOptions expanded() const;
  /// Builds a pipeline of expanded(); may be called again. Throws: as expanded() and Pipeline().
  Pipeline build();

 private:
  std::vector<std::string> specs_;
  std::vector<std::pair<double, std::string>> mix_;
  std::vector<std::string> joins_;
  PipelineOptions options_;
};

}  // namespace millrace::pipeline

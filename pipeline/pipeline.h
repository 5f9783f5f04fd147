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
// Samples that do not lie in shards come from a SampleSource (sample_source.h).
//
// Epochs follow each other without a gap: while the consumer uses the last batches of one, or
// evaluates after it, the next one is read ahead up to the prefetch depth.
//
// Concurrency: reads on io threads, decodes in an arena of its own. Order: batches, and every bit
// in them, depend on the options alone (see options.h), never on threads, depth or timing. Buffers:
// see ResourceOptions::memory_budget_bytes. Threads: next() and the destructor from one thread at a
// time; const members from any.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/batch.h"
#include "pipeline/options.h"
#include "pipeline/statistics.h"
#include "wds/fault_ledger.h"

namespace millrace::pipeline {

class Pipeline {
 public:
  class Builder;

  /// Checks the options and starts to read. Throws: InvalidArgument, saying which option and why.
  explicit Pipeline(PipelineOptions options);
  /// Stops everything, in mid-epoch too, in well under a second. Batches that were handed out live
  /// on.
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&&) noexcept;

  /// The next batch and true, or false at the end of an epoch; the call after that begins the next
  /// epoch. After the last epoch always false. Gives back the buffers of what `batch` held before.
  /// Throws: Error, the first fault in the order of the batches, and the same again ever after.
  bool next(Batch& batch);
  /// Makes next(), running or to come, throw Cancelled. Threads: any.
  void stop();
  /// Whether the last epoch has ended.
  bool finished() const;
  /// A batch without a valid slot: for a process whose epoch is over while others still step. It
  /// shares the pixels of the last batch handed out; zeros before the first.
  Batch masked_batch() const;

  /// The shapes of a batch's fields: name, spec and no data.
  const std::vector<BatchField>& fields() const;
  /// Where the pipeline stands: after the last batch handed out.
  Position position() const;
  Statistics statistics() const;
  /// What was read, emitted and skipped by the fault policy in the epoch of the last batch (or
  /// epoch end) handed out. Each epoch has its own ledger, and its own budget of faults.
  std::shared_ptr<const wds::FaultLedger> ledger() const;
  /// The options with every default filled in.
  const PipelineOptions& options() const;
  /// The ceiling of held bytes that follows from the options; within the budget, when one is set.
  std::size_t memory_bound_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Fills in PipelineOptions link by link.
class Pipeline::Builder {
 public:
  /// A spec: brace pattern, `::` union, folder, or manifest; several calls add up.
  Builder& shards(std::string_view spec);
  /// Urls as they are.
  Builder& shards(std::vector<std::string> urls);
  /// Samples from elsewhere, in place of shards.
  Builder& source(std::shared_ptr<const SampleSource> source);
  Builder& split(wds::SplitOptions split);
  Builder& shuffle(wds::ShuffleOptions shuffle);
  /// Adds a field; its name must be new.
  Builder& field(FieldSpec field);
  Builder& batch(BatchOptions batch);
  Builder& epochs(EpochOptions epochs);
  Builder& resources(ResourceOptions resources);
  Builder& faults(wds::FaultPolicy policy);
  /// Checks samples against the indexes beside the shards, and divides an epoch by them.
  Builder& indexed(bool indexed = true);
  Builder& opener(std::shared_ptr<const io::Opener> opener);
  /// Borrowed: it outlives the pipeline.
  Builder& opener(const io::Opener& opener);
  Builder& stop(std::stop_token stop);
  Builder& log(Log log);
  /// Goes on after the batch that `position` came with.
  Builder& resume(Position position);

  PipelineOptions& options() { return options_; }
  Pipeline build();

 private:
  std::vector<std::string> specs_;
  PipelineOptions options_;
};

}  // namespace millrace::pipeline

// DeliverStage: the ordered end of the graph: applies the fault policy, counts, and hands batches
// to the consumer's queue.
//
// Because it runs in the order of the batches, the ledger's order, the fault that ends a run, and
// which batches come before it are the same at any timing.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>

#include "pipeline/detail/ledger_book.h"
#include "pipeline/detail/messages.h"
#include "pipeline/detail/meters.h"
#include "pipeline/detail/output_queue.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

class DeliverStage {
 public:
  struct Callbacks {
    /// A batch went no further: its permit is free.
    std::function<void()> dropped;
    /// The rest of the epoch is not wanted.
    std::function<void(std::uint32_t)> cut;
    /// A fault ended the graph.
    std::function<void()> failed;
  };

  /// Everything borrowed outlives the stage.
  DeliverStage(const PipelineOptions& options, LedgerBook& ledgers, OutputQueue& output,
               Meters& meters, Callbacks callbacks)
      : options_(options),
        ledgers_(ledgers),
        output_(output),
        meters_(meters),
        callbacks_(std::move(callbacks)) {}

  void deliver(Finished finished);

 private:
  void deliver_batch(Finished& finished);
  void drop_batch(const Finished& finished);
  void report_faults(OpenBatch& batch, std::uint32_t epoch);
  void push_masked(const Finished& finished, std::int64_t repeat);
  void fail(std::exception_ptr error);
  void count_later_faults(const Finished& finished);

  const PipelineOptions& options_;
  LedgerBook& ledgers_;
  OutputQueue& output_;
  Meters& meters_;
  Callbacks callbacks_;
  bool over_ = false;
  /// The epoch that OnFault::kStop ended, until its end arrives.
  std::optional<std::uint32_t> stopped_epoch_;
};

}  // namespace millrace::pipeline::detail

// Pipeline::State: what lies behind a Pipeline: the parts, the graph that joins them, and the
// consumer's side of the output.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "io/base/thread_annotations.h"
#include "pipeline/detail/batch_layout.h"
#include "pipeline/detail/graph.h"
#include "pipeline/detail/memory_plan.h"
#include "pipeline/pipeline.h"

namespace millrace::pipeline {

/// Threads: next() from one at a time, const members from any.
struct Pipeline::State {
  explicit State(PipelineOptions given);

  bool next(Batch& batch);
  /// Makes next() throw Cancelled. Threads: any.
  void stop();
  bool is_finished() const;
  Batch masked_batch() const;
  Position position() const;
  std::shared_ptr<const wds::FaultLedger> ledger() const;
  Statistics statistics() const;

  const PipelineOptions options;
  const detail::BatchLayout layout;
  const detail::MemoryPlan plan;
  const std::vector<BatchField> fields;
  detail::LedgerBook ledgers;
  const std::shared_ptr<const SampleSource> source;
  detail::BatchPool pool;
  detail::OutputQueue output;
  detail::Meters meters;
  detail::ByteGauge encoded;

  std::atomic<std::int64_t> first_next_ns{0};
  std::atomic<std::int64_t> wait_ns{0};
  std::atomic<std::uint64_t> num_batches{0};
  std::atomic<std::uint64_t> num_samples{0};
  std::atomic<std::uint64_t> num_masked{0};

  std::optional<detail::Graph> graph;
  /// Last: nothing stops a graph that has gone.
  std::optional<std::stop_callback<std::function<void()>>> on_stop;

 private:
  /// Where the consumer stands.
  struct Consumer {
    Batch last;
    Position position;
    std::shared_ptr<const wds::FaultLedger> ledger;
    std::uint32_t ledger_epoch = 0;
    bool finished = false;
  };

  Position first_position() const;
  bool fetch(Batch& batch);
  void hand_out(Batch& batch, Batch next);
  void hand_out_masked(Batch& batch);
  void end_epoch(std::uint32_t epoch);
  void check_epoch(std::uint32_t epoch);
  std::uint32_t ledger_epoch() const;
  Batch zeros() const;

  // next() alone touches these.
  std::exception_ptr fault_;
  std::uint64_t epoch_samples_ = 0;       ///< valid slots of the epoch so far
  std::optional<detail::Output> masked_;  ///< fully masked batches still to be handed out
  mutable Mutex mutex_;
  Consumer consumer_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::pipeline

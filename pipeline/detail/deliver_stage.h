// The ordered end of the graph: DeliverStage applies the fault policy and counts, and the
// OutputQueue is what the consumer takes from.
//
// Because it runs in the order of the rounds, the ledger's order, the fault that ends a run, and
// which batches come before it are the same at any timing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>

#include "io/base/thread_annotations.h"
#include "pipeline/detail/ledger_book.h"
#include "pipeline/detail/messages.h"
#include "pipeline/detail/meters.h"
#include "pipeline/detail/round_filler.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// From the end of the graph to the consumer, in order; errors in order too. Buffers: as many
/// rounds as the merge has permits. Threads: push() and fail() from any, pop() and wait_for() from
/// one at a time.
class OutputQueue {
 public:
  void push(Output output);
  /// pop() throws `error` from now on, whatever is queued. Later calls have no effect.
  void fail(std::exception_ptr error);
  /// Waits for the next output. Throws: what fail() was given.
  Output pop();
  /// Waits until pop() will not wait, at most for `timeout`; returns whether it will not.
  bool wait_for(std::chrono::nanoseconds timeout);
  /// Throws: what fail() was given.
  void check();
  /// How many pop() would not wait for.
  std::size_t size();

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Output> outputs_ MILLRACE_GUARDED_BY(mutex_);
  std::exception_ptr error_ MILLRACE_GUARDED_BY(mutex_);
};

/// Threads: one at a time.
class DeliverStage {
 public:
  struct Callbacks {
    /// A round was discarded.
    std::function<void()> return_permit;
    /// The rest of the epoch is not wanted.
    std::function<void(std::uint32_t)> cut_epoch;
    /// A fault ended the graph.
    std::function<void()> failed;
  };

  /// Everything borrowed outlives the stage. Begins at `start`.
  DeliverStage(const PipelineOptions& options, const Position& start, LedgerBook& ledgers,
               OutputQueue& output, Meters& meters, Callbacks callbacks);

  void deliver(Output output);

 private:
  void deliver_round(Output output);
  void deliver_masked(Output output);
  void end_epoch(Output output);
  void fill(Output output);
  void hand_out(Output output);
  void replace_round(const Output& output);
  void take_account(OpenRound& round);
  void report_faults(OpenRound& round);
  bool ends_epoch(std::uint32_t epoch, const Error& fault);
  void fail(std::exception_ptr error);
  void count_later_faults(const Output& output);

  const PipelineOptions& options_;
  LedgerBook& ledgers_;
  OutputQueue& output_;
  Meters& meters_;
  Callbacks callbacks_;
  std::optional<RoundFiller> filler_;      ///< with BatchOptions::fill
  Position::Losses undecoded_;             ///< of the epoch, in the order of the slots
  Position::Losses handed_out_undecoded_;  ///< of them, those before the next round
  bool over_ = false;
  /// The epoch that OnFault::kStop cut, until its kEpochEnd.
  std::optional<std::uint32_t> stopped_epoch_;
};

}  // namespace millrace::pipeline::detail

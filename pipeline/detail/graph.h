// Graph: the stages joined as a TBB flow graph.
//
//   read (async, io threads) ──▶ merge (serial) ──▶ decode (unlimited) ──▶ order ──▶ deliver
//   (serial)
//        ▲                        │  ▲                    │                              │
//        └──── read requests ─────┘  └─ bytes decoded ────┴──── permits, cuts ───────────┘
//
// The merge alone starts reads and decodes, so every queue is bounded by what it has started;
// nothing ever blocks a thread of the arena. Merge and deliver have priority over decode tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "pipeline/detail/batch_buffers.h"
#include "pipeline/detail/batch_mixer.h"
#include "pipeline/detail/deliver_stage.h"
#include "pipeline/detail/ledger_book.h"
#include "pipeline/detail/meters.h"
#include "pipeline/detail/resolve.h"
#include "pipeline/detail/tuner.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// What the graph works with; borrowed, must outlive it.
struct GraphParts {
  const PipelineOptions& options;
  const MemoryShares& plan;
  const FieldDecoders& decoders;
  const RaggedDecoders& ragged;
  const BatchLayout& layout;
  const BatchMixer& mixer;
  const SampleSource& source;
  BatchPool& pool;
  LedgerBook& ledgers;
  OutputQueue& output;
  Meters& meters;
  ByteGauge& encoded;
};

class Graph {
 public:
  /// Starts to read at once.
  Graph(const GraphParts& parts, const Position& start);
  /// Cancels tasks that have not begun, and waits for those that have. Requires: not is_broken().
  ~Graph();

  /// The consumer took a round: another one may be opened. Threads: any. Throws: std::bad_alloc,
  /// which the consumer is told, too.
  void return_permit();
  /// Changes how many work, and how far ahead. Threads: one at a time. Throws: likewise; Exhausted.
  void tune(const TuneSettings& settings);
  /// Whether TBB had no memory for a task of its own. Then a node may be left locked, and a thread
  /// that is to tell it something waits for ever: the graph can neither go on nor end. Threads:
  /// any.
  bool is_broken() const;
  /// Tells the consumer if it is: TBB itself tells nobody. Threads: any.
  void check();
  /// Cancels waiting reads. Threads: any.
  void stop_reading();

 private:
  struct State;
  template <typename Message>
  void tell(const Message& message);

  std::unique_ptr<State> state_;
};

}  // namespace millrace::pipeline::detail

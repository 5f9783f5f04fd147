// Graph: the stages joined as a TBB flow graph.
//
//   read (async, io threads) ──▶ merge (serial) ──▶ decode (unlimited) ──▶ order ──▶ deliver
//   (serial)
//        ▲                        │  ▲                    │                              │
//        └──── read requests ─────┘  └─ bytes decoded ────┴──── permits, cuts ───────────┘
//
// The merge alone decides what happens next, so what waits anywhere is bounded by what it has let
// out; nothing ever blocks a thread of the arena. Merge and deliver go before waiting decode tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "pipeline/detail/batch_buffers.h"
#include "pipeline/detail/deliver_stage.h"
#include "pipeline/detail/ledger_book.h"
#include "pipeline/detail/meters.h"
#include "pipeline/detail/resolve.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// What the graph works with; borrowed, and outlives it.
struct GraphParts {
  const PipelineOptions& options;
  const MemoryPlan& plan;
  const FieldDecoders& decoders;
  const BatchLayout& layout;
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
  /// Cancels what has not begun, and waits for what has.
  ~Graph();

  /// The consumer took a batch: another one may be opened. Threads: any.
  void return_permit();
  /// Makes waiting reads end. Threads: any.
  void stop_reading();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::pipeline::detail

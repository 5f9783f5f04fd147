// StreamReader: reads one stream, epoch after epoch, and knows for each block where to begin to
// read it again.
//
// Positions are large when a shuffle buffer is (16 bytes a buffered sample), so one is taken only
// now and then, and blocks say how many samples after it they begin.
//
// Threads: one at a time; read() waits for disk and network, so it runs on io threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>

#include "pipeline/detail/ledger_book.h"
#include "pipeline/detail/messages.h"
#include "pipeline/options.h"
#include "pipeline/position.h"

namespace millrace::pipeline::detail {

class StreamReader {
 public:
  /// What all readers of a pipeline share; borrowed.
  struct Shared {
    const PipelineOptions& options;  ///< resolved
    const SampleSource& source;
    LedgerBook& ledgers;
    std::stop_token stop;
  };

  /// The process's stream at `place`, `number` among all. Epoch `first` begins at `start`, all
  /// others at their beginning.
  StreamReader(std::size_t place, int number, std::uint32_t first, Position::Stream start,
               const Shared& shared);

  /// Never throws: a fault is in the result.
  BlockRead read(const ReadRequest& request);

 private:
  void open(std::uint32_t epoch);
  bool next_block(wds::SampleBlock& block);
  void take_snapshot();

  const std::size_t place_;
  const std::uint32_t first_;
  const Position::Stream start_;
  const SampleSource& source_;
  LedgerBook& ledgers_;
  SampleSource::Request request_;
  bool is_empty_;  ///< an epoch has too few samples for this stream
  std::unique_ptr<SampleSource::Stream> stream_;
  std::shared_ptr<const wds::StreamPosition> snapshot_;
  std::uint64_t since_snapshot_ = 0;
  std::uint64_t to_skip_ = 0;
};

}  // namespace millrace::pipeline::detail

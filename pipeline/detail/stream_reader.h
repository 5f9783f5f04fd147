// StreamReader: reads one stream, epoch after epoch, and notes for each block the position from
// which it can be read again.
//
// A position is as large as the shuffle buffer (16 bytes a buffered sample), so one is taken only
// now and then, and a block has the number of samples between it and its own first one, and their
// trails.
//
// Threads: one at a time; read() waits for disk and network, so it runs on I/O threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <stop_token>

#include "pipeline/detail/ledger_book.h"
#include "pipeline/detail/messages.h"
#include "pipeline/detail/meters.h"
#include "pipeline/options.h"
#include "pipeline/position.h"

namespace millrace::pipeline::detail {

class StreamReader {
 public:
  /// Shared by all readers of a pipeline; borrowed.
  struct Shared {
    const PipelineOptions& options;  ///< resolved
    const SampleSource& source;
    LedgerBook& ledgers;
    RestoreMeter& restore;
    std::stop_token stop;
  };

  /// Stream `place` of the process, `number` among all. Epoch `first` begins at `start`, all others
  /// at their beginning.
  StreamReader(std::size_t place, int number, std::uint32_t first, const Position::Stream& start,
               const Shared& shared);

  /// The next block of the stream, or the end of the epoch. Never throws: a fault is in the result.
  BlockRead read(const ReadRequest& request);

 private:
  void open(std::uint32_t epoch);
  void follow_losses();
  bool restore(wds::SampleBlock& block);
  std::unique_ptr<SampleSource::Stream> open_stream(std::uint32_t epoch,
                                                    const wds::StreamPosition* start);
  void prepare_next(const wds::SampleBlock& drained);
  bool next_block(wds::SampleBlock& block);
  void take_snapshot();
  void follow(const wds::SampleBlock& block);

  const std::size_t place_;
  const std::uint32_t first_;
  const Position::Stream start_;
  const SampleSource& source_;
  LedgerBook& ledgers_;
  RestoreMeter& restore_;
  SampleSource::Request request_;
  const std::uint32_t end_epoch_;  ///< behind the last one; 0: no end
  bool is_empty_;                  ///< an epoch has too few samples for this stream
  std::unique_ptr<SampleSource::Stream> stream_;
  /// The next epoch's, which fills its shuffle buffer in the room that this one's leaves.
  struct Next {
    std::uint32_t epoch = 0;
    std::unique_ptr<SampleSource::Stream> stream = {};
    std::exception_ptr error = {};
    std::size_t samples = 0;  ///< that it may hold
    std::size_t bytes = 0;
  };
  std::optional<Next> next_;
  std::shared_ptr<const wds::StreamPosition> snapshot_;
  std::uint64_t since_snapshot_ = 0;
  std::shared_ptr<const Position::Trails> trails_;  ///< since the snapshot
  std::uint64_t to_skip_ = 0;
  std::uint64_t skipped_bytes_ = 0;
};

}  // namespace millrace::pipeline::detail

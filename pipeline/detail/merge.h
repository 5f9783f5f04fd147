// Merge: which sample goes into which slot of which batch. The one place where order is made.
//
// Slot j of the process takes the next sample of lane (stream) j mod lanes, going round the lanes
// that have not ended. The merge also says when to read: each lane has at most `blocks_per_lane`
// blocks read or being read, and about `decode_bytes` wait for decoding. It never waits itself: an
// event comes in, what can be done is done, and goes out through the sink.
//
// Concurrency: none. Order: a function of the lanes' content alone. Buffers: lanes ×
// blocks_per_lane blocks, decode_bytes and one more block, `permits` batches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <vector>

#include "pipeline/detail/batch_layout.h"
#include "pipeline/detail/batch_pool.h"
#include "pipeline/detail/messages.h"
#include "pipeline/detail/open_batch.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

struct MergeOptions {
  /// The stream number of each lane.
  std::vector<int> streams;
  BatchOptions batch = {};
  EpochOptions epochs = {};
  std::size_t blocks_per_lane = 2;
  std::size_t decode_bytes = 0;
  /// Batches that may be in the pipeline: being filled, or waiting for the consumer.
  std::int64_t permits = 1;
  std::uint64_t fingerprint = 0;
};

class Merge {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void read(const ReadRequest& request) = 0;
    virtual void decode(std::shared_ptr<DecodeBlock> block) = 0;
    virtual void finish(Finished finished) = 0;
    /// Samples that are in no batch that is handed out; `bytes` of them will not be decoded.
    virtual void dropped(std::size_t samples, std::size_t bytes) = 0;
  };

  /// Everything borrowed outlives the merge.
  Merge(MergeOptions options, const BatchLayout& layout, BatchPool& pool, Sink& sink);

  void start(const Position& position);
  void on_read(ReadResult result);
  /// A decode block of that many bytes has been decoded.
  void on_decoded(std::size_t bytes);
  /// A batch has left the pipeline.
  void on_permit();
  /// The rest of `epoch` is not wanted.
  void on_cut(std::uint32_t epoch);

 private:
  struct Lane {
    std::uint32_t reading = 0;  ///< the epoch it reads, or is to read next
    bool busy = false;          ///< a block is being read
    bool idle = false;          ///< there is nothing more to read, ever
    bool ended = false;         ///< in the current epoch
    std::deque<ReadResult> ready;
    std::size_t cursor = 0;  ///< in ready.front()
    Position::Stream used;   ///< after the last block that was left
  };

  void pump();
  bool step();
  Lane* find_sample();
  void take(Lane& lane);
  void leave_block(Lane& lane);
  void end_lane(Lane& lane);
  void request(Lane& lane);
  void begin_epoch(std::uint32_t epoch);
  void drop_stale_blocks(Lane& lane);
  void drop(const wds::SampleBlock& block, std::size_t from);
  void end_epoch();
  void fail(std::exception_ptr error);
  void open_batch();
  void close_full_batch();
  void close_short_batch(Finished::Kind kind);
  void flush_block();
  void mask_up_to_limit();
  bool is_last(std::uint32_t epoch) const;
  bool epoch_is_full() const;
  std::shared_ptr<const Position> position() const;
  Finished ticket(Finished::Kind kind);

  const MergeOptions options_;
  const BatchLayout& layout_;
  BatchPool& pool_;
  Sink& sink_;
  std::vector<Lane> lanes_;
  std::size_t next_lane_ = 0;
  std::size_t num_ended_ = 0;
  std::uint32_t epoch_ = 0;
  std::int64_t epoch_batches_ = 0;
  std::int64_t permits_;
  std::size_t bytes_in_decode_ = 0;
  std::uint64_t sequence_ = 0;
  bool done_ = false;
  std::shared_ptr<OpenBatch> batch_;
  std::shared_ptr<DecodeBlock> block_;
};

}  // namespace millrace::pipeline::detail

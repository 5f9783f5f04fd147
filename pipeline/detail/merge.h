// Merge: which sample goes into which slot of which batch. The only place that decides the order.
//
// Slot j of the process takes the next sample of its stream j mod streams, cyclically over the
// streams that have not ended. The slots of a round of batches, one for each device, go to the
// batches in turn. The merge also decides when to read: each stream has at most
// `blocks_per_stream` blocks read or being read, and about `decode_bytes` wait for decoding. It
// never waits itself: at each event it does all steps that have become possible, and sends the
// results to its sink. When all streams have ended it checks that they had the samples that were
// known before (MergeOptions::own_samples), or lost them to faults that were reported.
//
// Concurrency: none. Order: a function of the streams' content alone. Buffers: streams ×
// blocks_per_stream blocks, decode_bytes and one more block, `permits` rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/detail/batch_buffers.h"
#include "pipeline/detail/messages.h"
#include "pipeline/detail/open_round.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

struct MergeOptions {
  /// The process's streams, by their numbers among all.
  std::vector<int> stream_numbers;
  wds::SplitOptions split = {};
  /// Of an epoch, over all processes; 0: not known.
  std::int64_t num_samples = 0;
  /// What this process's streams give in an epoch, faults apart; nullopt: not known.
  std::optional<std::int64_t> own_samples = {};
  /// Faults may end an epoch early (wds::OnFault::kStop).
  bool may_stop = false;
  std::uint64_t seed = 0;
  BatchOptions batch = {};
  EpochOptions epochs = {};
  /// An epoch with fewer batches is filled up to so many with fully masked ones.
  std::int64_t least_batches = 0;
  std::size_t blocks_per_stream = 2;  ///< at first
  std::size_t decode_bytes = 0;
  /// Rounds that may be in the pipeline: being filled, or waiting for the consumer.
  std::int64_t permits = 1;
  std::uint64_t fingerprint = 0;
  int seed_processes = 0;  ///< pipeline::seed_processes()
  std::shared_ptr<const std::vector<std::pair<std::string, std::string>>> order = nullptr;
  const BatchMixer* mixer = nullptr;  ///< borrowed; null: batches are not mixed
};

class Merge {
 public:
  class Sink {
   public:
    virtual ~Sink() = default;
    virtual void read(const ReadRequest& request) = 0;
    virtual void decode(const std::shared_ptr<DecodeBlock>& block) = 0;
    virtual void deliver(const Output& output) = 0;
    /// Samples that are in no batch that is handed out, and their bytes if not in decode yet.
    virtual void drop(std::size_t samples, std::size_t bytes) = 0;
  };

  /// Begins at `start`. `layout`, `pool` and `sink` are borrowed and must outlive the merge.
  Merge(MergeOptions options, const Position& start, const BatchLayout& layout, BatchPool& pool,
        Sink& sink);

  void handle(const Event& event);

 private:
  struct Stream {
    std::uint32_t reading = 0;  ///< the epoch it reads, or is to read next
    bool busy = false;          ///< a block is being read
    bool idle = false;          ///< there is nothing more to read, ever
    bool ended = false;         ///< in the current epoch
    std::deque<std::shared_ptr<BlockRead>> ready;
    std::size_t cursor = 0;  ///< in ready.front()
    Position::Stream used;   ///< the position after the last block used up
  };
  /// Samples of the epoch, those before the start position included.
  struct Sums {
    std::uint64_t taken = 0;         ///< by slots
    wds::LostSamples lost = {};      ///< in streams that have ended
    bool is_promised = true;         ///< they must add up to MergeOptions::own_samples
    std::uint64_t most_dropped = 0;  ///< of a round before the start position, and not counted
  };

  void on(const Started& started);
  void on(const std::shared_ptr<BlockRead>& read);
  void on(const BlockDecoded& decoded);
  void on(const PermitReturned& returned);
  void on(const EpochCut& cut);
  void on(const ReadAhead& ahead);

  bool step();
  Stream* find_sample();
  void take(Stream& stream);
  void leave_block(Stream& stream);
  void end_stream(Stream& stream);
  std::exception_ptr wrong_number() const;
  void request(Stream& stream);
  void begin_epoch(std::uint32_t epoch);
  void drop_stale_blocks(Stream& stream);
  void drop_rest(const BlockRead& read, std::size_t from);
  void end_epoch();
  void fail(std::exception_ptr error);
  void open_round();
  void close_round(Output::Kind kind);
  void flush_block();
  void mask_up_to_limit();
  bool is_last(std::uint32_t epoch) const;
  bool epoch_is_full() const;
  std::shared_ptr<Position> position() const;
  Output next_output(Output::Kind kind);

  const MergeOptions options_;
  const int stripe_;
  const BatchLayout& layout_;
  BatchPool& pool_;
  Sink& sink_;
  std::vector<Stream> streams_;
  std::size_t next_stream_ = 0;
  std::size_t num_ended_ = 0;
  std::uint32_t epoch_ = 0;
  std::int64_t epoch_batches_ = 0;
  Sums sums_;
  std::int64_t permits_;
  std::size_t blocks_per_stream_;
  std::size_t bytes_in_decode_ = 0;
  std::uint64_t sequence_ = 0;
  bool is_over_ = false;
  std::shared_ptr<OpenRound> round_;
  std::shared_ptr<DecodeBlock> block_;
};

}  // namespace millrace::pipeline::detail

// PieceReader: the samples of one piece of a shard, with its index, by its scan or by counting.
//
// The shard is opened by the first next(). Faults come out of next() and go back into survive(),
// which reports them by the policy.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "wds/detail/joiner.h"
#include "wds/detail/opened_ahead.h"
#include "wds/detail/shard_sequence.h"
#include "wds/fault_ledger.h"
#include "wds/sample_stream.h"
#include "wds/shard_reader.h"

namespace millrace::wds::detail {

class PieceReader {
 public:
  /// What all pieces of a stream share; borrowed.
  struct Shared {
    const StreamSpec& spec;  ///< spec.shard is how shards are read
    const io::Opener& opener;
    FaultLedger& ledger;
  };
  enum class After { kGoOn, kNextShard, kEnd };

  /// The index that the piece is read by, as the ledger's policy says; null: by none. Throws: as
  /// usable_index().
  static std::shared_ptr<const ShardIndex> index_of(const Shared& shared, const ShardPiece& piece);

  /// `shard` is the piece's number in the stream's own list; it is read from `start_offset` on.
  PieceReader(const Shared& shared, std::uint32_t shard, ShardPiece piece,
              std::uint64_t start_offset);

  /// Fills `sample` and returns true; false at the piece's end. Throws: as ShardReader::next().
  bool next(Sample& sample);
  /// Reports what next() has thrown. Throws: it, or Exhausted, by the policy.
  After survive(const Error& fault);
  /// By the fault that the last survive() was given; one of another piece is that piece's.
  const LostSamples& lost() const { return lost_; }
  /// Whether next() will return false, or find a fault of the shard's end.
  bool is_done() const;
  /// Tells the ledger of the shard's oddities.
  void close();

  std::uint32_t shard() const { return shard_; }
  /// Whether its samples can be read once more without a network, and without unpacking what is
  /// before them.
  bool can_read_again() const { return on_disk_ && !joiner_ && reader_ && !reader_->compressed(); }
  /// Whether it was read from its beginning and has given nothing.
  bool is_barren() const { return start_offset_ == 0 && !gave_; }
  /// Offset of the next sample, as far as is known.
  std::uint64_t position() const { return reader_ ? reader_->position() : start_offset_; }

 private:
  static bool is_on_disk(const std::string& url);
  static bool seeks_index(const Shared& shared, const ShardPiece& piece);
  void open();
  void open_ahead();
  void join(Sample& sample);
  void place(ShardOptions& options);
  void place_by_scan(ShardOptions& options);
  void place_by_row(ShardOptions& options);
  /// Whether the reader knows the piece's first sample and its last one.
  bool is_placed() const { return index_ || by_row_; }
  bool reads_all() const { return is_placed() || !piece_.cut(); }
  std::uint64_t end() const { return piece_.first + piece_.count; }
  void count_refetched();
  bool is_own(const Error& fault) const;
  OnFault report(const Error& fault, bool goes_on);
  std::optional<std::uint64_t> lost_samples(const Error& fault) const;
  std::optional<std::uint64_t> samples_before() const;
  bool is_scanned_whole() const;
  std::optional<std::uint64_t> listed_samples() const;
  std::optional<std::uint64_t> all_samples(const Error& fault) const;

  const Shared* shared_;
  std::uint32_t shard_;
  ShardPiece piece_;
  std::uint64_t start_offset_;
  bool by_row_;           // a Parquet file, whose offsets are its rows' numbers
  bool on_disk_ = false;  // a tar that can be opened again; known once it is open
  std::shared_ptr<const ShardIndex> index_;  // if usable
  std::unique_ptr<OpenedAhead> ahead_;       // of a distant shard; the reader borrows it
  std::optional<ShardReader> reader_;
  std::optional<Joiner> joiner_;
  bool join_failed_ = false;     // the last fault is a joined shard's
  std::uint64_t refetched_ = 0;  // of its samples; reported to the ledger
  std::uint64_t number_ = 0;     // samples of the shard before the reader's position
  LostSamples lost_ = {};
  bool gave_ = false;
};

}  // namespace millrace::wds::detail

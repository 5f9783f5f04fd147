// ShardSequence: the shards that one stream reads in one epoch, by position in its own list.
//
// Either a finite list, the same list repeated (an epoch of a given number of samples), pass after
// pass of which each goes on where the one before ended (passes_go_on()), or shards drawn with
// replacement. A pure function of the StreamSpec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wds/detail/python_random.h"
#include "wds/sample_stream.h"

namespace millrace::wds::detail {

/// The part of one shard that a stream reads.
struct ShardPiece {
  std::string url;
  std::uint64_t first = 0;                     ///< number of the first sample
  std::uint64_t count = 0;                     ///< samples; 0: the whole shard
  bool to_end = true;                          ///< the piece ends where the shard ends
  std::shared_ptr<const ShardScan> scan = {};  ///< of the shard, if there is one

  bool cut() const { return first > 0 || count > 0; }
};

/// The stream's pieces this epoch, of its first pass. Requires: not resampled.
std::vector<ShardPiece> stream_pieces(const StreamSpec& spec);

/// The epoch's samples, concatenated and cut into S runs whose lengths differ by at most one: the
/// samples that a stream reads in one pass.
class EpochRuns {
 public:
  /// Requires: spec.found.counts. Throws: InvalidArgument if they do not match the shards.
  explicit EpochRuns(const StreamSpec& spec);

  std::uint64_t num_samples() const { return ends_.empty() ? 0 : ends_.back(); }
  std::size_t num_pieces(std::uint64_t run) const;
  std::vector<ShardPiece> pieces(std::uint64_t run) const;

 private:
  struct Places {
    std::size_t first = 0;
    std::size_t last = 0;  ///< behind the last one
  };
  std::uint64_t bound(std::uint64_t run) const;
  Places places(std::uint64_t run) const;
  ShardPiece piece(std::size_t place, std::uint64_t begin, std::uint64_t end) const;

  StreamSpec spec_;
  // Of the shards with samples in the range, in the epoch's order.
  std::vector<std::size_t> order_;
  std::vector<std::uint64_t> ends_;  // samples up to each one's last
  std::size_t cut_shard_ = 0;        // the one in which the range begins,
  std::uint64_t cut_ = 0;            // behind so many of its samples
};

class ShardSequence {
 public:
  /// An index past the end of every sequence.
  static constexpr std::uint32_t kEnd = 0xFFFF'FFFF;

  explicit ShardSequence(const StreamSpec& spec);

  /// The piece at `index`; nullopt past the end.
  std::optional<ShardPiece> at(std::size_t index);
  /// Whether a pass other than the first begins at `index`, or would behind the last one.
  bool begins_pass(std::size_t index);
  /// Place in the epoch's list of what is at `index`. Requires: resampled.
  std::size_t drawn(std::size_t index) { return draw(index); }
  /// After so many pieces each one has come, at the latest; 0 for a stream without shards. Of
  /// drawn shards, how many there are.
  std::size_t round() const;

 private:
  /// A pass in which the stream has samples: its `number`-th.
  struct Visit {
    std::uint64_t pass = 0;
    std::uint64_t run = 0;
  };
  Visit visit(std::uint64_t number) const;
  std::optional<ShardPiece> piece_of_visit(std::size_t index);
  std::size_t find_visit(std::size_t index);
  std::size_t draw(std::size_t index);

  StreamSpec spec_;
  std::vector<ShardPiece> pieces_;  // of the first pass, or of visit `visited_`
  std::optional<EpochRuns> runs_;   // if each pass goes on where the one before ended
  std::size_t visited_ = 0;
  std::vector<std::size_t> begins_;   // the index at which each visit begins, as far as known
  PythonRandom rng_;                  // kWebDataset, resampled: it cannot rewind,
  std::vector<std::uint32_t> drawn_;  // so its draws are kept
};

}  // namespace millrace::wds::detail

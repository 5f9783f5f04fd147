// ShardSequence: the shards that one stream reads in one epoch, by position in its own list.
//
// Either a finite list, the same list repeated (an epoch of a given number of samples), or shards
// drawn with replacement. A pure function of the StreamSpec.
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

/// The stream's pieces this epoch. Requires: not resampled.
std::vector<ShardPiece> stream_pieces(const StreamSpec& spec);

class ShardSequence {
 public:
  explicit ShardSequence(const StreamSpec& spec);

  /// The piece at `index`; nullopt past the end.
  std::optional<ShardPiece> at(std::size_t index);
  /// Shards in one round; 0 for a stream without shards.
  std::size_t round() const { return spec_.resampled ? spec_.shards->size() : pieces_.size(); }

 private:
  std::size_t draw(std::size_t index);

  StreamSpec spec_;
  std::vector<ShardPiece> pieces_;
  PythonRandom rng_;                  // kWebDataset, resampled: it cannot rewind,
  std::vector<std::uint32_t> drawn_;  // so its draws are kept
};

}  // namespace millrace::wds::detail

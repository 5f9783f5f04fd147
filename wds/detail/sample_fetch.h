// Reads samples again by their offsets, to restore a shuffle buffer, in the way they were read
// first: with the same index, and beyond the same damage.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "io/base/error.h"
#include "wds/detail/piece_reader.h"
#include "wds/detail/shuffle_buffer.h"
#include "wds/sample_stream.h"

namespace millrace::wds::detail {

struct FetchedSamples {
  /// Samples that are there no more, by one fault: Corrupt where a shard has none at an offset, or
  /// as reading throws.
  struct Lost {
    Error fault;
    std::uint64_t samples = 1;
  };
  std::vector<BufferedSample> samples;
  std::uint64_t bytes = 0;      ///< of shards, unpacked, that were read for them
  std::vector<Lost> lost = {};  ///< by shard and offset; the ledger has not been told
};

/// The samples at `refs`, in that order, but for those that are lost. Each shard is read in one
/// pass, skipping wide gaps; up to four at a time. Throws: Cancelled; std::bad_alloc.
FetchedSamples fetch_samples(const std::vector<StreamPosition::SampleRef>& refs,
                             const std::function<ShardPiece(std::uint32_t shard)>& piece_of,
                             const PieceReader::Shared& shared);

}  // namespace millrace::wds::detail

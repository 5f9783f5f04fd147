// reshard: rewrites the samples of some shards: other sizes, another order, fewer fields.
//
//   reshard({.shards = expand_shards("https://host/old-{0..9}.tar"),
//            .writer = {.pattern = "new-%06d.tar", .maxcount = 5'000},
//            .shuffle_seed = 7},
//           opener, ledger);
//
// It streams: only the shuffle buffer is held in memory. Damage is handled by the ledger's policy,
// and if a shard has an index, every sample is checked against it. Headers are written anew, so the
// metadata of the source's headers (pax records, owners, times) is lost.
//
// A shuffle reorders the shards and, through the buffer, the samples: a sample moves by about the
// buffer's length. If classes are sorted over many shards, a complete shuffle needs a buffer as
// large as the set.
//
// Order: the shards', or the shuffle's. Buffers: the shuffle buffer and ShardWriter's. Threads: one
// at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/base/topology.h"
#include "io/opener.h"
#include "wds/fault_ledger.h"
#include "wds/shard_writer.h"

namespace millrace::wds {

struct ReshardOptions {
  std::vector<std::string> shards;
  ShardWriterOptions writer = {};
  /// Shuffles with this seed. Default: the order is kept.
  std::optional<std::uint64_t> shuffle_seed = {};
  /// Maximum number of samples and payload bytes in the shuffle buffer.
  std::int64_t buffer_samples = 10'000;
  std::size_t buffer_bytes = std::size_t{1} << 30;
  /// Suffixes from old to new.
  std::vector<std::pair<std::string, std::string>> rename = {};
  /// The (new) suffixes to keep; empty: all. A sample that has none of them is omitted.
  std::vector<std::string> select = {};
  /// Omits samples whose key was already written. Takes 16 bytes per key, for at most 2^26 keys.
  bool drop_duplicates = false;
  /// The processes that write the set together: each reads everything, and writes the shards whose
  /// number mod processes is its own. Then maxcount alone ends a shard, and result and manifest are
  /// of its own shards. Each numbers the samples by what it reads itself: unless all results have
  /// one digest, samples are missing and doubled.
  Topology topology = {};
  /// Called with the samples that this process is about to write, a block at a time, and may
  /// replace their fields' data. Throws: what ends the run.
  std::function<void(std::span<WriterSample> samples)> change = {};
  /// Called after each sample with the number written so far.
  std::function<void(std::uint64_t written)> on_sample = {};
};

struct ReshardResult {
  std::vector<ShardSummary> shards;
  std::uint64_t written = 0;
  std::uint64_t duplicates = 0;  ///< omitted
  std::uint64_t empty = 0;       ///< omitted: none of the selected fields
  /// Of `rename` (the old) and `select`: suffixes that no sample has.
  std::vector<std::string> not_found = {};
  /// SHA-256 of the keys, suffixes and sizes of all samples that were counted, of other processes'
  /// shards, too, in order: processes that number other samples give other digests.
  std::string digest;
};

/// Throws: as the policy decides; NotFound if every sample is skipped; InvalidArgument (a rename
/// that makes two fields equal); Exhausted (more keys than drop_duplicates can hold); Cancelled.
/// Completed shards are kept.
ReshardResult reshard(const ReshardOptions& options, const io::Opener& opener, FaultLedger& ledger,
                      const std::stop_token& stop = {});

}  // namespace millrace::wds

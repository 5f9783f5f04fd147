// reshard: the samples of some shards, written anew: other sizes, another order, fewer fields.
//
//   reshard({.shards = expand_shards("https://host/old-{0..9}.tar"),
//            .writer = {.pattern = "new-%06d.tar", .maxcount = 5'000},
//            .shuffle_seed = 7},
//           opener, ledger);
//
// It streams: nothing is held but the shuffle buffer. What is read goes by the ledger's policy, and
// where a shard has its index, every sample is compared with that. Headers are written anew, so
// what a source's headers carried (pax records, owners, times) is gone.
//
// A shuffle is of the shards' order and, through the buffer, of samples: a sample moves about as
// far as the buffer is long. Where classes lie sorted over many shards a buffer as large as the set
// makes it complete.
//
// Order: the shards', or the shuffle's. Buffers: the shuffle buffer, and what ShardWriter holds.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/opener.h"
#include "wds/fault_ledger.h"
#include "wds/shard_writer.h"

namespace millrace::wds {

struct ReshardOptions {
  std::vector<std::string> shards;
  ShardWriterOptions writer = {};
  /// Shuffles by this seed. Default: the order stays.
  std::optional<std::uint64_t> shuffle_seed = {};
  /// Samples and bytes of the shuffle buffer, at most.
  std::int64_t buffer_samples = 10'000;
  std::size_t buffer_bytes = std::size_t{1} << 30;
  /// Suffixes from old to new.
  std::vector<std::pair<std::string, std::string>> rename = {};
  /// The (new) suffixes to keep; empty: all. A sample that has none of them is left out.
  std::vector<std::string> select = {};
  /// Leaves out samples whose key was written before. 16 bytes a key, and not for more than 2^26.
  bool drop_duplicates = false;
  /// Called after each sample with the number written so far.
  std::function<void(std::uint64_t written)> on_sample = {};
};

struct ReshardResult {
  std::vector<ShardSummary> shards;
  std::uint64_t written = 0;
  std::uint64_t duplicates = 0;  ///< left out
  std::uint64_t empty = 0;       ///< left out: none of the fields selected
};

/// Throws: Error, by the policy; NotFound when every sample is skipped; InvalidArgument (a rename
/// that makes two fields one); Exhausted (more keys than can be told apart); Cancelled. Shards that
/// were complete stay.
ReshardResult reshard(const ReshardOptions& options, const io::Opener& opener, FaultLedger& ledger,
                      const std::stop_token& stop = {});

}  // namespace millrace::wds

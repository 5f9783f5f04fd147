// FoundShards: what is known of a list of shards before their samples are read: from indexes, scans
// and manifests.
//
//   spec.found.counts = sample_counts(opener, *spec.shards);
//
// Threads: a value; what it points to is constant, but for `first_indexes`, and shared by all
// copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "wds/first_indexes.h"
#include "wds/shard_scan.h"

namespace millrace::wds {

class Joins;
class SampleSelection;
struct SetContents;

struct FoundShards {
  /// Samples in each of the shards, from sample_counts(), scans or a manifest. If set, kMillrace
  /// divides samples, not shards: streams differ by at most one sample. A shard that is cut and has
  /// neither a usable index nor a scan is read from its beginning by each of its streams.
  std::shared_ptr<const std::vector<std::uint64_t>> counts = nullptr;
  /// One for each shard, null where `counts` did not come from one: a piece that begins in
  /// mid-shard is then sought without an index. Null: no shard was scanned.
  std::shared_ptr<const ShardScans> scans = nullptr;
  /// Order::kPermutation: what the shards hold, from find_contents(). Shards of which samples
  /// cannot be read by their place (compressed, damaged, pipes, without index or scan) are refused.
  std::shared_ptr<const SetContents> contents = nullptr;
  /// Order::kPermutation: what ShuffleOptions chooses of them; null: each sample of the range once.
  std::shared_ptr<const SampleSelection> selection = nullptr;
  /// Shards that complete the samples of these; null: none.
  std::shared_ptr<const Joins> joins = nullptr;
  /// The indexes that were read of the shards.
  std::shared_ptr<FirstIndexes> first_indexes = std::make_shared<FirstIndexes>();

  /// The shards whose indexes say how samples are divided; 0 if whole shards are divided.
  std::size_t num_indexed() const;
};

}  // namespace millrace::wds

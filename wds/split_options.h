// SplitOptions: how an epoch is divided among ranks and their workers.
//
// Own splitters see the epoch's list (shuffled, where shards are shuffled):
//
//   SplitOptions{.world = 4, .rank = 1, .workers = 2,
//                .node_splitter = [](const auto& shards, const SplitPart& node) {
//                  return those_on_disk(shards, node.index);
//                }};
//
// Threads: as a value; splitters are called from many threads.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace millrace::wds {

/// One of `count` ranks, or of `count` workers of a rank.
struct SplitPart {
  int index = 0;
  int count = 1;
};

/// A user's own splitter: the epoch's list of shards to the sub-list of one part. Called again for
/// each epoch and stream, and must give the same for the same: it decides the order of samples.
using ShardSplitter = std::function<std::vector<std::string>(const std::vector<std::string>& shards,
                                                             const SplitPart& part)>;

/// How an epoch is divided.
struct SplitOptions {
  int world = 1;
  int rank = 0;
  int workers = 1;
  /// S, the number of streams over all ranks; 0 means world * workers. A multiple of world.
  int streams = 0;
  /// What a rank reads, and what each worker reads of that. Default: split_by_node and
  /// split_by_worker. Shards may be left out, or read by several; a stream without any is an error.
  ShardSplitter node_splitter = {};
  ShardSplitter worker_splitter = {};
};

}  // namespace millrace::wds

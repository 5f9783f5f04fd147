// The sum of what the ranks of a group hold, as one binary tree over the ranks: a node of n ranks
// is the sum of its first ranks, the largest power of two below n, and of the others.
//
// A process adds up the largest nodes that lie within its own ranks, and whoever has those of all
// processes adds up the rest: the same bits however ranks are spread over processes.
//
// Threads: functions.
#pragma once

#include <span>
#include <vector>

namespace millrace::trainer::detail {

/// Ranks [begin, end).
struct RankRange {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  friend bool operator==(const RankRange&, const RankRange&) = default;
};

/// The largest nodes of the tree over ranks [0, world) that lie in `part`, in their order: they
/// tile it.
std::vector<RankRange> nodes_within(RankRange part, int world);

/// into = the sum of `sources`, each that of the node in `nodes`, which tile a node. Each source
/// has as many values as `into`, which may be one of them.
void sum_tree(std::span<float> into, std::span<const RankRange> nodes,
              std::span<const float* const> sources);
void sum_tree(std::span<double> into, std::span<const RankRange> nodes,
              std::span<const double* const> sources);

}  // namespace millrace::trainer::detail

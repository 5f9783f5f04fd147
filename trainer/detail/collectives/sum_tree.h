// Sums over the ranks of a group as one binary tree over the ranks: a node of n ranks is the sum of
// its first ranks, the largest power of two below n, and of the others.
//
// A process sums the largest nodes within its own ranks; with those of all processes the rest of
// the tree is summed: the same bits however ranks are spread over processes.
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

/// The largest nodes of the tree over ranks [0, world) within `part`, in their order: they tile it.
std::vector<RankRange> nodes_within(RankRange part, int world);

/// into = the sum of `sources`, which are the sums of `nodes`, which tile a node. Each source has
/// as many values as `into`, which may be one of them.
void sum_tree(std::span<float> into, std::span<const RankRange> nodes,
              std::span<const float* const> sources);
void sum_tree(std::span<double> into, std::span<const RankRange> nodes,
              std::span<const double* const> sources);

}  // namespace millrace::trainer::detail

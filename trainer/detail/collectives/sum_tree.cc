#include "trainer/detail/collectives/sum_tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "trainer/detail/flat_math.h"

namespace millrace::trainer::detail {
namespace {

/// Values that are summed at a time: a few nodes' worth stay in the first-level cache.
constexpr std::size_t kBlock = 512;

/// The first rank of a node's second half.
int middle_of(RankRange node) {
  return node.begin + static_cast<int>(std::bit_floor(static_cast<unsigned>(node.size() - 1)));
}

void add_nodes(RankRange node, RankRange part, std::vector<RankRange>& nodes) {
  if (node.end <= part.begin || part.end <= node.begin) return;
  if (part.begin <= node.begin && node.end <= part.end) {
    nodes.push_back(node);
    return;
  }
  const int middle = middle_of(node);
  add_nodes({node.begin, middle}, part, nodes);
  add_nodes({middle, node.end}, part, nodes);
}

/// How many of `nodes` are in the first half of the node that they tile.
std::size_t half_of(std::span<const RankRange> nodes) {
  const int middle = middle_of({nodes.front().begin, nodes.back().end});
  const auto second =
      std::ranges::find_if(nodes, [middle](const RankRange& node) { return node.begin >= middle; });
  return static_cast<std::size_t>(second - nodes.begin());
}

/// Whether the tree adds the nodes one after the other.
bool is_chain(std::span<const RankRange> nodes) {
  return nodes.size() < 3 || (nodes.size() == 3 && half_of(nodes) == 2);
}

template <typename T>
void sum_block(std::span<const RankRange> nodes, std::span<const T* const> sources, std::size_t at,
               std::span<T> into) {
  if (nodes.size() == 1) {
    std::copy_n(sources.front() + at, into.size(), into.data());
    return;
  }
  const std::size_t half = half_of(nodes);
  std::array<T, kBlock> second;
  const std::span<T> others = std::span(second).first(into.size());
  sum_block(nodes.first(half), sources.first(half), at, into);
  sum_block(nodes.subspan(half), sources.subspan(half), at, others);
  const std::array<const T*, 2> both{into.data(), others.data()};
  flat::sum(into, both);
}

template <typename T>
void sum_any(std::span<T> into, std::span<const RankRange> nodes,
             std::span<const T* const> sources) {
  if (is_chain(nodes)) return flat::sum(into, sources);
  std::array<T, kBlock> block;  // `into` may be a source that is still to be read
  for (std::size_t at = 0; at < into.size(); at += kBlock) {
    const std::span<T> sums = std::span(block).first(std::min(kBlock, into.size() - at));
    sum_block(nodes, sources, at, sums);
    std::ranges::copy(sums, into.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

}  // namespace

std::vector<RankRange> nodes_within(RankRange part, int world) {
  std::vector<RankRange> nodes;
  add_nodes({0, world}, part, nodes);
  return nodes;
}

void sum_tree(std::span<float> into, std::span<const RankRange> nodes,
              std::span<const float* const> sources) {
  sum_any(into, nodes, sources);
}

void sum_tree(std::span<double> into, std::span<const RankRange> nodes,
              std::span<const double* const> sources) {
  sum_any(into, nodes, sources);
}

}  // namespace millrace::trainer::detail

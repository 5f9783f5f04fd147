#include "trainer/nn/arena_layout.h"

#include <algorithm>
#include <numeric>

namespace millrace::trainer::nn {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t padded(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool overlap(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

struct Extent {
  std::size_t begin;
  std::size_t end;
};

// The lowest offset with `bytes` free between the `taken` extents.
std::size_t first_gap(std::vector<Extent>& taken, std::size_t bytes) {
  std::ranges::sort(taken, {}, &Extent::begin);
  std::size_t offset = 0;
  for (const Extent& extent : taken) {
    if (offset + bytes <= extent.begin) break;
    offset = std::max(offset, extent.end);
  }
  return offset;
}

}  // namespace

ArenaLayout lay_out_arena(std::span<const Lifetime> buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t i) { return buffers[i].bytes; });
  ArenaLayout plan{.offsets = std::vector<std::size_t>(buffers.size())};
  std::vector<Extent> taken;
  for (auto now = order.begin(); now != order.end(); ++now) {
    taken.clear();
    for (auto other = order.begin(); other != now; ++other) {
      if (!overlap(buffers[*now], buffers[*other])) continue;
      taken.push_back({plan.offsets[*other], plan.offsets[*other] + padded(buffers[*other].bytes)});
    }
    plan.offsets[*now] = first_gap(taken, padded(buffers[*now].bytes));
    plan.total_bytes = std::max(plan.total_bytes, plan.offsets[*now] + padded(buffers[*now].bytes));
  }
  return plan;
}

}  // namespace millrace::trainer::nn

#include <gtest/gtest.h>

#include "io/base/rng.h"
#include "trainer/nn/memory_plan.h"

namespace millrace::trainer::nn {
namespace {

TEST(MemoryPlan, SharesMemoryBetweenLivesThatDoNotMeet) {
  const std::vector<Lifetime> chain = {{1000, 0, 1}, {1000, 1, 2}, {1000, 2, 3}, {1000, 3, 4}};
  EXPECT_EQ(plan_memory(chain).total_bytes, 2048U);
}

TEST(MemoryPlan, NeverOverlapsLivesThatMeet) {
  KeyedRng rng({.seed = 5});
  std::vector<Lifetime> buffers;
  for (int i = 0; i < 200; ++i) {
    const int first = static_cast<int>(rng.below(100));
    buffers.push_back({rng.below(5000), first, first + static_cast<int>(rng.below(30))});
  }
  const MemoryPlan plan = plan_memory(buffers);
  for (std::size_t a = 0; a < buffers.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % 64, 0U);
    EXPECT_LE(plan.offsets[a] + buffers[a].bytes, plan.total_bytes);
    for (std::size_t b = 0; b < a; ++b) {
      if (buffers[a].last < buffers[b].first || buffers[b].last < buffers[a].first) continue;
      EXPECT_TRUE(plan.offsets[a] + buffers[a].bytes <= plan.offsets[b] ||
                  plan.offsets[b] + buffers[b].bytes <= plan.offsets[a]);
    }
  }
}

}  // namespace
}  // namespace millrace::trainer::nn

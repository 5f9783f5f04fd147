#include "trainer/collectives.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <functional>
#include <numeric>
#include <thread>

#include "io/base/error.h"
#include "trainer/gradient_reducer.h"

namespace millrace::trainer {
namespace {

using Group = std::vector<std::unique_ptr<Collectives>>;

/// Runs `work` on one thread a rank.
void on_all(Group& group, const std::function<void(Collectives&)>& work) {
  std::vector<std::jthread> threads;
  for (auto& rank : group) threads.emplace_back([&work, &rank] { work(*rank); });
}

/// What every implementation of Collectives must do; a factory of groups a world's size.
class CollectivesConformance : public ::testing::TestWithParam<int> {
 protected:
  Group group_ = make_thread_collectives(GetParam());
  int world() const { return GetParam(); }
};

TEST_P(CollectivesConformance, AllReduceSumsInTheOrderOfTheRanks) {
  constexpr std::size_t kCount = 5003;
  std::vector<float> expected(kCount, 0.0F);
  const auto value = [](int rank, std::size_t i) {
    return 1.0F / static_cast<float>(3 * static_cast<std::size_t>(rank) + i + 1);
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    expected[i] = value(0, i);
    for (int r = 1; r < world(); ++r) expected[i] += value(r, i);
  }
  on_all(group_, [&](Collectives& rank) {
    for (int round = 0; round < 20; ++round) {
      std::vector<float> values(kCount);
      for (std::size_t i = 0; i < kCount; ++i) values[i] = value(rank.rank(), i);
      if ((rank.rank() + round) % 3 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      rank.all_reduce(values);
      ASSERT_EQ(expected, values);
    }
  });
}

TEST_P(CollectivesConformance, ReduceScatterFillsTheRanksOwnSlice) {
  constexpr std::size_t kCount = 1000;
  on_all(group_, [&](Collectives& rank) {
    std::vector<float> values(kCount, static_cast<float>(rank.rank() + 1));
    rank.reduce_scatter(values);
    const auto [begin, end] = Collectives::slice(kCount, rank.rank(), rank.world());
    const auto sum = static_cast<float>(world() * (world() + 1) / 2);
    for (std::size_t i = begin; i < end; ++i) ASSERT_EQ(sum, values[i]) << i;
  });
}

// Small sums go another way than large ones: sizes on both sides of every bound, in turns.
TEST_P(CollectivesConformance, SumsOfAllSizesFollowEachOther) {
  on_all(group_, [&](Collectives& rank) {
    for (int round = 0; round < 300; ++round) {
      const std::size_t count =
          std::array<std::size_t, 6>{0, 1, 63, 64, 65, 700}[static_cast<std::size_t>(round) % 6];
      std::vector<double> values(count, static_cast<double>(rank.rank() + round));
      rank.all_reduce(std::span<double>(values));
      const double expected = world() * round + world() * (world() - 1) / 2.0;
      ASSERT_EQ(std::vector<double>(count, expected), values) << round;
      if (round % 7 == rank.rank()) std::this_thread::yield();
    }
  });
}

// Rank 0 comes last, time and again: on however busy a machine, not to every meeting first.
TEST_P(CollectivesConformance, CountsTheWaitForRanksThatComeLater) {
  if (world() == 1) GTEST_SKIP() << "nobody waits";
  on_all(group_, [&](Collectives& rank) {
    for (int round = 0; round < 20; ++round) {
      if (rank.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      rank.barrier();
    }
    if (rank.rank() != 0) {
      EXPECT_GT(rank.peer_wait(), std::chrono::nanoseconds(0));
    }
  });
}

TEST_P(CollectivesConformance, SlicesTileTheValues) {
  for (const std::size_t n : {0U, 1U, 16U, 17U, 1000U, 4096U}) {
    std::size_t at = 0;
    for (int r = 0; r < world(); ++r) {
      const auto [begin, end] = Collectives::slice(n, r, world());
      EXPECT_EQ(at, begin);
      EXPECT_LE(begin, end);
      at = end;
    }
    EXPECT_EQ(n, at);
  }
}

TEST_P(CollectivesConformance, BroadcastCopiesTheRootsBytes) {
  on_all(group_, [&](Collectives& rank) {
    std::array<std::byte, 3> data{std::byte(rank.rank()), std::byte(7), std::byte(rank.rank())};
    rank.broadcast(data, world() - 1);
    EXPECT_EQ(std::byte(world() - 1), data[0]);
    EXPECT_EQ(std::byte(world() - 1), data[2]);
  });
}

TEST_P(CollectivesConformance, GatherKeepsRanksOrderAndSizes) {
  on_all(group_, [&](Collectives& rank) {
    const std::vector<std::byte> mine(static_cast<std::size_t>(rank.rank()),
                                      std::byte(rank.rank()));
    const auto all = rank.all_gather_bytes(mine);
    ASSERT_EQ(static_cast<std::size_t>(world()), all.size());
    for (int r = 0; r < world(); ++r) {
      EXPECT_EQ(std::vector<std::byte>(static_cast<std::size_t>(r), std::byte(r)),
                all[static_cast<std::size_t>(r)]);
    }
  });
}

TEST_P(CollectivesConformance, AbortReleasesWaitingRanksWithItsReason) {
  if (world() == 1) GTEST_SKIP() << "nobody waits";
  on_all(group_, [&](Collectives& rank) {
    if (rank.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      rank.abort("disk on fire");
      return;
    }
    try {
      rank.barrier();
      ADD_FAILURE() << "the barrier let rank " << rank.rank() << " through";
    } catch (const Error& error) {
      EXPECT_EQ(ErrorCode::kCancelled, error.code());
      EXPECT_NE(std::string::npos, error.message().find("disk on fire"));
    }
    EXPECT_THROW(rank.barrier(), Error) << "and stays so";
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, CollectivesConformance, ::testing::Values(1, 2, 3, 8));

TEST(ThreadCollectives, NamesTheRankThatNeverComes) {
  Group group = make_thread_collectives(3, {.timeout = std::chrono::milliseconds(50)});
  on_all(group, [&](Collectives& rank) {
    if (rank.rank() == 1) return;
    try {
      rank.barrier();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_NE(std::string::npos, error.message().find("rank 1")) << error.what();
    }
  });
}

TEST(ThreadCollectives, RefusesUnequalSizesOnEveryRank) {
  Group group = make_thread_collectives(2);
  on_all(group, [&](Collectives& rank) {
    std::vector<float> values(static_cast<std::size_t>(10 + rank.rank()));
    EXPECT_THROW(rank.all_reduce(values), Error);
  });
}

TEST(GradientReducer, SumsWhatEachRankOwnsBucketByBucket) {
  constexpr std::size_t kFloats = 1000;
  Group group = make_thread_collectives(3);
  std::vector<int> owners(kFloats, 0);
  std::mutex mutex;
  on_all(group, [&](Collectives& rank) {
    std::vector<float> gradients(kFloats);
    GradientReducer reducer(gradients, rank, {.bucket_floats = 100});
    for (int step = 0; step < 5; ++step) {
      std::fill(gradients.begin(), gradients.end(), static_cast<float>(rank.rank() + step));
      reducer.begin();
      for (std::size_t n = 70; n < kFloats; n += 70) reducer.gradients_ready(n);
      reducer.wait();
      for (const Range& range : reducer.owned()) {
        for (std::size_t i = range.begin; i < range.end; ++i) {
          ASSERT_EQ(static_cast<float>(3 * step + 3), gradients[i]);
        }
      }
      rank.barrier();
    }
    const std::lock_guard lock(mutex);
    for (const Range& range : reducer.owned()) {
      for (std::size_t i = range.begin; i < range.end; ++i) ++owners[i];
    }
  });
  EXPECT_EQ(std::vector<int>(kFloats, 1), owners) << "every float has one owner";
}

// Waking a thread for what nothing can hide costs more than to sum it at once.
TEST(GradientReducer, SumsItsLastBucketOnTheCallersThread) {
  Group group = make_thread_collectives(2);
  on_all(group, [&](Collectives& rank) {
    std::vector<float> gradients(61'706, 1.0F);
    GradientReducer reducer(gradients, rank);
    EXPECT_EQ(1U, reducer.buckets().size());
    EXPECT_FALSE(reducer.has_thread());
    for (int step = 0; step < 3; ++step) {
      std::fill(gradients.begin(), gradients.end(), 1.0F);
      reducer.begin();
      reducer.gradients_ready(gradients.size());
      reducer.wait();
      for (const Range& range : reducer.owned()) EXPECT_EQ(2.0F, gradients[range.begin]);
      rank.barrier();
    }
  });
}

TEST(GradientReducer, EndsWhenItsGroupIsAborted) {
  Group group = make_thread_collectives(2);
  std::vector<float> gradients(64);
  GradientReducer reducer(gradients, *group[0]);
  reducer.begin();
  reducer.gradients_ready(64);
  group[1]->abort("gone");
  EXPECT_THROW(reducer.wait(), Error);
}

}  // namespace
}  // namespace millrace::trainer

// The requirements of every implementation of Collectives. The last test aborts the group, and all
// that it shares with others. To test one, in a file of its own:
//
//   INSTANTIATE_TEST_SUITE_P(Mine, CollectivesConformance,
//                            ::testing::Values(CollectivesCase{"mine", [] { return my_group(); }}),
//                            case_name);
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "tests/trainer/plain_collectives.h"
#include "trainer/collectives.h"

namespace millrace::trainer {

/// The ranks of a group in this process of the test, in their order: all of them, or, if several
/// processes run the same tests, those of one.
struct CollectivesGroup {
  std::vector<std::unique_ptr<Collectives>> ranks;
  int devices = 1;                   ///< ranks of one process of a run, which may share memory
  std::shared_ptr<void> owner = {};  ///< what the ranks borrow
};

struct CollectivesCase {
  std::string name;
  std::function<CollectivesGroup()> make;
  bool sums_as_tree = true;  ///< false: in an order of its own, with other bits
};

inline std::string case_name(const ::testing::TestParamInfo<CollectivesCase>& info) {
  return info.param.name;
}

/// Runs `work` on one thread per rank.
inline void on_all(std::vector<std::unique_ptr<Collectives>>& ranks,
                   const std::function<void(Collectives&)>& work) {
  std::vector<std::jthread> threads;
  for (auto& rank : ranks) threads.emplace_back([&work, &rank] { work(*rank); });
}

class CollectivesConformance : public ::testing::TestWithParam<CollectivesCase> {
 protected:
  ~CollectivesConformance() override { group_.ranks.clear(); }

  int world() const { return group_.ranks.front()->world(); }
  int first_rank() const { return group_.ranks.front()->rank(); }
  void on_all(const std::function<void(Collectives&)>& work) {
    trainer::on_all(group_.ranks, work);
  }

  /// Values whose sum depends on its order, if the order is promised.
  static float value(int rank, std::size_t i) {
    const std::size_t whole = 3 * static_cast<std::size_t>(rank) + i + 1;
    return GetParam().sums_as_tree ? 1.0F / static_cast<float>(whole)
                                   : static_cast<float>(whole % 100);
  }
  static std::vector<float> values_of(int rank, std::size_t count) {
    std::vector<float> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(value(rank, i));
    return values;
  }
  std::vector<float> tree_sums(std::size_t count) const {
    std::vector<float> sums;
    std::vector<float> terms(static_cast<std::size_t>(world()));
    for (std::size_t i = 0; i < count; ++i) {
      for (int r = 0; r < world(); ++r) terms[static_cast<std::size_t>(r)] = value(r, i);
      sums.push_back(testing::plain_tree_sum(std::span<const float>(terms)));
    }
    return sums;
  }

  CollectivesGroup group_ = GetParam().make();
};

TEST_P(CollectivesConformance, RanksAreNumberedInTheirOrder) {
  int expected = first_rank();
  for (const auto& rank : group_.ranks) {
    EXPECT_EQ(expected++, rank->rank());
    EXPECT_EQ(world(), rank->world());
  }
  EXPECT_LE(expected, world());
}

TEST_P(CollectivesConformance, AllReduceSumsAsOneTreeOverTheRanks) {
  constexpr std::size_t kCount = 5003;
  const std::vector<float> expected = tree_sums(kCount);
  on_all([&](Collectives& rank) {
    for (int round = 0; round < 10; ++round) {
      std::vector<float> values = values_of(rank.rank(), kCount);
      if ((rank.rank() + round) % 3 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      rank.all_reduce(values);
      ASSERT_EQ(expected, values);
    }
  });
}

TEST_P(CollectivesConformance, ReduceScatterFillsTheRanksOwnSlice) {
  constexpr std::size_t kCount = 5003;
  const std::vector<float> sums = tree_sums(kCount);
  on_all([&](Collectives& rank) {
    std::vector<float> values = values_of(rank.rank(), kCount);
    std::vector<float> expected = values;
    rank.reduce_scatter(values);
    const auto [begin, end] = rank.slice(kCount, rank.rank());
    std::copy(sums.begin() + static_cast<std::ptrdiff_t>(begin),
              sums.begin() + static_cast<std::ptrdiff_t>(end),
              expected.begin() + static_cast<std::ptrdiff_t>(begin));
    ASSERT_EQ(expected, values);
  });
}

// The ranks of a process may share one buffer, of which each fills its slice.
TEST_P(CollectivesConformance, AllGatherGivesEveryRanksSliceToAll) {
  for (const bool is_shared : {false, true}) {
    for (const std::size_t count : {0U, 5U, 16U, 1000U, 5003U}) {
      std::vector<float> expected;
      for (std::size_t i = 0; i < count; ++i) expected.push_back(static_cast<float>(i + 1));
      std::vector<std::vector<float>> buffers(group_.ranks.size(), std::vector<float>(count));
      on_all([&](Collectives& rank) {
        const int place = rank.rank() - first_rank();
        const int at = is_shared ? place / group_.devices : place;
        std::vector<float>& values = buffers[static_cast<std::size_t>(at)];
        const auto [begin, end] = rank.slice(count, rank.rank());
        for (std::size_t i = begin; i < end; ++i) values[i] = expected[i];
        rank.all_gather(values);
        ASSERT_EQ(expected, values) << rank.rank();
        rank.barrier();
      });
    }
  }
}

TEST_P(CollectivesConformance, ARoundedGatherKeepsWhatIsNotRounded) {
  constexpr std::size_t kCount = 5003;
  const std::vector<ValueRange> rounded{{3, 40}, {100, 2000}, {2000, 2001}, {4990, 5003}};
  on_all([&](Collectives& rank) {
    std::vector<float> values(kCount);
    const auto [begin, end] = rank.slice(kCount, rank.rank());
    for (std::size_t i = begin; i < end; ++i) values[i] = 1.0F / static_cast<float>(i + 1);
    rank.all_gather_rounded(values, rounded);
    for (std::size_t i = 0; i < kCount; ++i) {
      const float exact = 1.0F / static_cast<float>(i + 1);
      const bool is_own = i >= begin && i < end;
      const bool may_round = !is_own && std::ranges::any_of(rounded, [i](const ValueRange& range) {
        return i >= range.first && i < range.second;
      });
      ASSERT_NEAR(exact, values[i], may_round ? exact / 256 : 0.0F) << i;
    }
  });
}

// Small sums may use another algorithm than large ones: sizes on both sides of every bound, in
// turn.
TEST_P(CollectivesConformance, SumsOfAllSizesFollowEachOther) {
  on_all([&](Collectives& rank) {
    for (int round = 0; round < 120; ++round) {
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

TEST_P(CollectivesConformance, SlicesTileTheValues) {
  for (const std::size_t n : {0U, 1U, 16U, 17U, 1000U, 4096U}) {
    std::size_t at = 0;
    for (int r = 0; r < world(); ++r) {
      for (const auto& rank : group_.ranks)
        EXPECT_EQ(group_.ranks.front()->slice(n, r), rank->slice(n, r)) << "alike on all ranks";
      const auto [begin, end] = group_.ranks.front()->slice(n, r);
      EXPECT_EQ(at, begin);
      EXPECT_LE(begin, end);
      at = end;
    }
    EXPECT_EQ(n, at);
  }
}

TEST_P(CollectivesConformance, BroadcastCopiesTheRootsBytes) {
  on_all([&](Collectives& rank) {
    for (int root = 0; root < world(); ++root) {
      std::array<std::byte, 3> data{std::byte(rank.rank()), std::byte(7), std::byte(rank.rank())};
      rank.broadcast(data, root);
      EXPECT_EQ(std::byte(root), data[0]);
      EXPECT_EQ(std::byte(root), data[2]);
    }
  });
}

TEST_P(CollectivesConformance, AllGatherBytesKeepsRanksOrderAndSizes) {
  on_all([&](Collectives& rank) {
    for (int round = 0; round < 3; ++round) {
      const std::vector<std::byte> mine(static_cast<std::size_t>(rank.rank() + round),
                                        std::byte(rank.rank()));
      const auto all = rank.all_gather_bytes(mine);
      ASSERT_EQ(static_cast<std::size_t>(world()), all.size());
      for (int r = 0; r < world(); ++r) {
        EXPECT_EQ(std::vector<std::byte>(static_cast<std::size_t>(r + round), std::byte(r)),
                  all[static_cast<std::size_t>(r)]);
      }
    }
  });
}

TEST_P(CollectivesConformance, BarrierWaitsForAll) {
  const int ranks_here = static_cast<int>(group_.ranks.size());
  std::atomic<int> came = 0;
  on_all([&](Collectives& rank) {
    for (int round = 1; round <= 20; ++round) {
      ++came;
      rank.barrier();
      EXPECT_GE(came.load(), round * ranks_here);
      rank.barrier();
    }
  });
}

TEST_P(CollectivesConformance, AbortReleasesWaitingRanksWithItsReason) {
  if (world() == 1) GTEST_SKIP() << "nobody waits";
  on_all([&](Collectives& rank) {
    if (rank.rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      rank.abort("disk on fire");
      rank.abort("a later reason");
      return;
    }
    try {
      rank.barrier();
      ADD_FAILURE() << "the barrier let rank " << rank.rank() << " through";
    } catch (const Error& error) {
      EXPECT_EQ(ErrorCode::kCancelled, error.code());
      EXPECT_NE(std::string::npos, error.message().find("disk on fire")) << error.message();
    }
    EXPECT_THROW(rank.barrier(), Error) << "and stays so";
  });
}

}  // namespace millrace::trainer

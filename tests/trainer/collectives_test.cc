#include "trainer/collectives.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <thread>

#include "io/base/error.h"
#include "tests/trainer/collectives_conformance.h"
#include "tests/trainer/fake_transport.h"
#include "tests/trainer/plain_collectives.h"
#include "trainer/cluster.h"
#include "trainer/detail/collectives/sum_tree.h"
#include "trainer/gradient_reducer.h"
#include "trainer/reduce_cost.h"

namespace millrace::trainer {
namespace {

using Group = std::vector<std::unique_ptr<Collectives>>;
using testing::FakeNetwork;
using testing::PlainCollectives;

CollectivesCase threads(int world) {
  return {"Threads" + std::to_string(world), [world] {
            return CollectivesGroup{.ranks = make_thread_collectives(world), .devices = world};
          }};
}

CollectivesCase plain(int world) {
  return {"Plain" + std::to_string(world),
          [world] { return CollectivesGroup{.ranks = PlainCollectives::make(world)}; }};
}

/// What the ranks of a cluster borrow: its network, and each process's view of it.
struct FakeProcesses {
  FakeProcesses(int processes, int devices) : network(processes) {
    for (int process = 0; process < processes; ++process) {
      clusters.push_back(
          make_cluster({.process = process, .processes = processes, .devices = devices},
                       network.transport(process)));
    }
  }
  FakeNetwork network;
  std::vector<std::unique_ptr<Cluster>> clusters;
};

CollectivesCase cluster(int processes, int devices) {
  return {"Cluster" + std::to_string(processes) + "x" + std::to_string(devices),
          [processes, devices] {
            const auto fakes = std::make_shared<FakeProcesses>(processes, devices);
            CollectivesGroup group{.ranks = {}, .devices = devices, .owner = fakes};
            for (const auto& one : fakes->clusters)
              for (auto& rank : one->make_group()) group.ranks.push_back(std::move(rank));
            return group;
          }};
}

INSTANTIATE_TEST_SUITE_P(Threads, CollectivesConformance,
                         ::testing::Values(threads(1), threads(2), threads(3), threads(8)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Clusters, CollectivesConformance,
                         ::testing::Values(cluster(1, 2), cluster(2, 1), cluster(2, 2),
                                           cluster(2, 3), cluster(3, 1), cluster(4, 1),
                                           cluster(4, 2), cluster(4, 3), cluster(8, 1)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Plain, CollectivesConformance,
                         ::testing::Values(plain(1), plain(2), plain(5)), case_name);

TEST(ReduceCost, IsTheModelsArithmetic) {
  const Network network{.latency = 1e-3, .overhead = 0, .bandwidth = 4e6};
  // Two buckets of a million bytes: half of each crosses between two machines.
  const ReduceInput two{.topology = {.processes = 2},
                        .values = 500'000,
                        .bucket = 250'000,
                        .network = network,
                        .backward = 1.0};
  const ReduceCost cost = reduce_cost(two);
  EXPECT_NEAR(cost.reduce_scatter, 2e-3 + 0.25, 1e-9);
  EXPECT_NEAR(cost.all_gather, 2e-3 + 0.25, 1e-9);
  EXPECT_NEAR(cost.hidden, 1e-3 + 0.125, 1e-9) << "the first bucket";
  EXPECT_NEAR(cost.exposed + cost.hidden, cost.reduce_scatter + cost.all_gather + cost.votes, 1e-9);
  ReduceInput slow = two;
  slow.forward = 0.1;
  EXPECT_NEAR(reduce_cost(slow).hidden, cost.hidden + 0.05, 1e-9) << "half of forward";
  ReduceInput crowded = two;
  crowded.backward = 0.1;
  EXPECT_NEAR(reduce_cost(crowded).hidden, 0.05, 1e-9)
      << "from the first bucket's end on, all the time";
  ReduceInput adding = two;
  adding.add = 1e-6;
  EXPECT_NEAR(reduce_cost(adding).reduce_scatter, cost.reduce_scatter + 0.25, 1e-9);
  EXPECT_EQ(reduce_cost(adding).all_gather, cost.all_gather);
  ReduceInput many = two;
  many.topology.processes = 1024;
  EXPECT_NEAR(reduce_cost(many).all_gather, 20e-3 + 0.5 * 1023 / 1024, 1e-9) << "log2 messages";
  many.topology.processes = 1000;
  many.network.overhead = 1e-5;
  EXPECT_NEAR(reduce_cost(many).all_gather, 2 * (1e-3 + 999e-5) + 0.5 * 999 / 1000, 1e-9)
      << "all messages at once";
  many.topology.node_processes = 1000;
  EXPECT_EQ(reduce_cost(many).exposed, 0.0) << "one machine";
}

TEST(SumTree, AProcesssNodesAreTheLargestWithinItsRanks) {
  using detail::nodes_within;
  using Nodes = std::vector<detail::RankRange>;
  EXPECT_EQ((Nodes{{0, 8}}), nodes_within({0, 8}, 8));
  EXPECT_EQ((Nodes{{4, 8}}), nodes_within({4, 8}, 8));
  EXPECT_EQ((Nodes{{0, 2}, {2, 3}}), nodes_within({0, 3}, 6));
  EXPECT_EQ((Nodes{{3, 4}, {4, 6}}), nodes_within({3, 6}, 6));
}

TEST(Cluster, ProcessesTellEachOtherBytes) {
  FakeProcesses fakes(3, 2);
  std::vector<std::jthread> threads;
  for (auto& one : fakes.clusters) {
    threads.emplace_back([&cluster = *one] {
      const auto process = static_cast<std::size_t>(cluster.topology().process);
      std::array<std::byte, 2> data{std::byte(process), std::byte(9)};
      cluster.broadcast(data, 1);
      EXPECT_EQ(std::byte(1), data[0]);
      const auto all = cluster.all_gather(std::span(data).first(process == 2 ? 1 : 2));
      ASSERT_EQ(3U, all.size());
      EXPECT_EQ(2U, all[0].size());
      EXPECT_EQ(1U, all[2].size());
    });
  }
}

TEST(Cluster, SendsGradientsInBf16IfAsked) {
  for (const int processes : {3, 4}) {
    testing::FakeNetwork network(processes);
    std::vector<std::jthread> threads;
    for (int process = 0; process < processes; ++process) {
      threads.emplace_back([&network, process, processes] {
        const auto cluster = make_cluster({.process = process, .processes = processes},
                                          network.transport(process), {.bf16_gradients = true});
        const auto group = cluster->make_group();
        std::vector<float> values(100);
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = 1.0F / static_cast<float>(i + 3);
        const std::vector<float> own = values;
        group.front()->reduce_scatter(values);
        const auto [begin, end] = group.front()->slice(values.size(), process);
        bool is_rounded = false;
        for (std::size_t i = begin; i < end; ++i) {
          const float exact = static_cast<float>(processes) * own[i];
          EXPECT_NEAR(exact, values[i], exact / 100);
          is_rounded = is_rounded || values[i] != exact;
        }
        EXPECT_TRUE(is_rounded) << "of " << begin << " to " << end;
        std::vector<float> whole = own;
        group.front()->all_reduce(std::span<float>(whole));
        EXPECT_FLOAT_EQ(static_cast<float>(processes) * own[1], whole[1])
            << "other sums stay exact";
      });
    }
  }
}

TEST(Cluster, AnAbortReachesTheGroupsOfEveryProcess) {
  FakeProcesses fakes(2, 1);
  const auto first = fakes.clusters[0]->make_group();
  const auto second = fakes.clusters[1]->make_group();
  const std::jthread waits([&] { EXPECT_THROW(second.front()->barrier(), Error); });
  fakes.clusters[0]->abort("no space left");
}

// Rank 0 arrives late again and again: even on a busy machine it is not first at every meeting.
TEST(ThreadCollectives, CountsTheWaitForRanksThatComeLater) {
  Group group = make_thread_collectives(3);
  on_all(group, [&](Collectives& rank) {
    for (int round = 0; round < 20; ++round) {
      if (rank.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      rank.barrier();
    }
    if (rank.rank() != 0) {
      EXPECT_GT(rank.peer_wait(), std::chrono::nanoseconds(0));
    }
  });
}

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

TEST(BucketReducer, SumsWhatEachRankOwnsBucketByBucket) {
  constexpr std::size_t kFloats = 1000;
  Group group = make_thread_collectives(3);
  std::vector<int> owners(kFloats, 0);
  std::mutex mutex;
  on_all(group, [&](Collectives& rank) {
    std::vector<float> gradients(kFloats);
    BucketReducer reducer(gradients, rank, {.bucket_floats = 100});
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

// With nothing to overlap it with, waking a thread costs more than summing at once.
TEST(BucketReducer, SumsItsLastBucketOnTheCallersThread) {
  Group group = make_thread_collectives(2);
  on_all(group, [&](Collectives& rank) {
    std::vector<float> gradients(61'706, 1.0F);
    BucketReducer reducer(gradients, rank);
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

TEST(BucketReducer, EndsWhenItsGroupIsAborted) {
  Group group = make_thread_collectives(2);
  std::vector<float> gradients(64);
  BucketReducer reducer(gradients, *group[0]);
  reducer.begin();
  reducer.gradients_ready(64);
  group[1]->abort("gone");
  EXPECT_THROW(reducer.wait(), Error);
}

}  // namespace
}  // namespace millrace::trainer

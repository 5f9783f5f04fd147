#include "wds/split.h"

#include <gtest/gtest.h>

#include <map>

#include "io/base/error.h"

namespace millrace::wds {
namespace {

using Strings = std::vector<std::string>;

Strings numbered(int count) {
  Strings shards;
  for (int i = 0; i < count; ++i) shards.push_back(std::to_string(i));
  return shards;
}

Environment variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    if (found == values.end()) return {};
    return found->second;
  };
}

TEST(Split, ByNodeThenByWorker) {
  EXPECT_EQ(split_by_worker(split_by_node(numbered(10), 1, 2), 1, 2), (Strings{"3", "7"}));
  EXPECT_THROW(split_by_node(numbered(4), 2, 2), Error);
  EXPECT_THROW(split_by_worker(numbered(4), -1, 2), Error);
}

TEST(Split, AUsersOwnFunctionsDecideWhoReadsWhat) {
  const auto shards = std::make_shared<const Strings>(numbered(12));
  StreamSpec spec{.shards = shards, .num_streams = 4, .world = 2};
  spec.node_splitter = [](const Strings& all, const SplitPart& node) {  // halves, not every other
    const auto half = static_cast<std::ptrdiff_t>(all.size()) / node.count;
    return Strings(all.begin() + node.index * half, all.begin() + (node.index + 1) * half);
  };
  spec.stream = 1;  // rank 1, worker 0 of 2
  EXPECT_EQ(stream_shards(spec), (Strings{"6", "8", "10"}));
  spec.worker_splitter = [](const Strings& own, const SplitPart& worker) {
    return worker.index == 0 ? own : Strings{};
  };
  EXPECT_EQ(stream_shards(spec), (Strings{"6", "7", "8", "9", "10", "11"}));
  spec.shuffle.order = Order::kWebDataset;
  EXPECT_EQ(stream_shards(spec), (Strings{"6", "7", "8", "9", "10", "11"}));
  spec.stream = 3;
  EXPECT_THROW(stream_shards(spec), Error) << "worker 1 has none";
}

TEST(Split, StreamsAreNodesAndWorkers) {
  const auto shards = std::make_shared<const Strings>(numbered(23));
  for (int rank = 0; rank < 3; ++rank) {
    for (int worker = 0; worker < 2; ++worker) {
      const StreamSpec spec{.shards = shards, .num_streams = 6, .stream = rank + 3 * worker};
      EXPECT_EQ(stream_shards(spec), split_by_worker(split_by_node(*shards, rank, 3), worker, 2));
    }
  }
}

TEST(Split, RankComesFromOptionsThenEnvironment) {
  const Environment all = variables({{"RANK", "1"},
                                     {"WORLD_SIZE", "4"},
                                     {"OMPI_COMM_WORLD_RANK", "2"},
                                     {"OMPI_COMM_WORLD_SIZE", "8"}});
  EXPECT_EQ(resolve_rank(3, 5, all).rank, 3);
  EXPECT_EQ(resolve_rank({}, {}, all).world, 4);
  EXPECT_EQ(resolve_rank({}, {},
                         variables({{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "8"}}))
                .rank,
            2);
  EXPECT_EQ(resolve_rank({}, {}, variables({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}})).rank,
            5);
  EXPECT_EQ(resolve_rank({}, {}, variables({})).world, 1);
  EXPECT_THROW(resolve_rank({}, {}, variables({{"RANK", "1"}})), Error);
  EXPECT_THROW(resolve_rank({}, {}, variables({{"RANK", "4"}, {"WORLD_SIZE", "4"}})), Error);
  EXPECT_THROW(resolve_rank({}, {}, variables({{"RANK", "x"}, {"WORLD_SIZE", "4"}})), Error);
  EXPECT_THROW(resolve_rank(2, 2, all), Error);
  EXPECT_THROW(resolve_rank(2, {}, all), Error);
}

TEST(Split, TooFewShardsAreRefusedWithTheNumbers) {
  EXPECT_NO_THROW(check_enough_shards(8, {.world = 2, .workers = 4}));
  try {
    check_enough_shards(7, {.world = 2, .workers = 4});
    FAIL() << "7 shards for 8 streams were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message().find("7 shards"), std::string::npos);
    EXPECT_NE(error.message().find("8 streams"), std::string::npos);
  }
}

TEST(Split, StreamsAreAMultipleOfWorld) {
  EXPECT_EQ(num_streams({.world = 2, .workers = 3}), 6);
  EXPECT_EQ(num_streams({.world = 2, .workers = 3, .streams = 8}), 8);
  EXPECT_EQ(streams_of_rank({.world = 2, .rank = 1, .streams = 6}), (std::vector<int>{1, 3, 5}));
  EXPECT_THROW(num_streams({.world = 3, .streams = 8}), Error);
  EXPECT_THROW(num_streams({.world = 0}), Error);
}

}  // namespace
}  // namespace millrace::wds

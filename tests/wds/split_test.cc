#include "wds/split.h"

#include <gtest/gtest.h>

#include "io/base/error.h"
#include "wds/sample_stream.h"

namespace millrace::wds {
namespace {

using Strings = std::vector<std::string>;

Strings numbered(int count) {
  Strings shards;
  for (int i = 0; i < count; ++i) shards.push_back(std::to_string(i));
  return shards;
}

TEST(Split, ByProcessThenByWorker) {
  EXPECT_EQ(split_by_worker(split_by_process(numbered(10), 1, 2), 1, 2), (Strings{"3", "7"}));
  EXPECT_THROW(split_by_process(numbered(4), 2, 2), Error);
  EXPECT_THROW(split_by_worker(numbered(4), -1, 2), Error);
}

TEST(Split, AUsersOwnFunctionsDecideWhoReadsWhat) {
  const auto shards = std::make_shared<const Strings>(numbered(12));
  StreamSpec spec{.shards = shards, .num_streams = 4, .processes = 2};
  spec.process_splitter = [](const Strings& all,
                             const SplitPart& process) {  // halves, not every other
    const auto half = static_cast<std::ptrdiff_t>(all.size()) / process.count;
    return Strings(all.begin() + process.index * half, all.begin() + (process.index + 1) * half);
  };
  spec.stream = 1;  // process 1, worker 0 of 2
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

TEST(Split, StreamsAreProcessesAndWorkers) {
  const auto shards = std::make_shared<const Strings>(numbered(23));
  for (int process = 0; process < 3; ++process) {
    for (int worker = 0; worker < 2; ++worker) {
      const StreamSpec spec{.shards = shards, .num_streams = 6, .stream = process + 3 * worker};
      EXPECT_EQ(stream_shards(spec),
                split_by_worker(split_by_process(*shards, process, 3), worker, 2));
    }
  }
}

TEST(Split, TooFewShardsAreRefusedWithTheNumbers) {
  EXPECT_NO_THROW(check_enough_shards(8, {.topology = {.processes = 2}, .workers = 4}));
  try {
    check_enough_shards(7, {.topology = {.processes = 2}, .workers = 4});
    FAIL() << "7 shards for 8 streams were accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(error.message().find("7 shards"), std::string::npos);
    EXPECT_NE(error.message().find("8 streams"), std::string::npos);
  }
}

TEST(Split, StreamsAreAMultipleOfTheProcesses) {
  EXPECT_EQ(num_streams({.topology = {.processes = 2}, .workers = 3}), 6);
  EXPECT_EQ(num_streams({.topology = {.processes = 2}, .workers = 3, .streams = 8}), 8);
  EXPECT_EQ(streams_of_process({.topology = {.process = 1, .processes = 2}, .streams = 6}),
            (std::vector<int>{1, 3, 5}));
  EXPECT_THROW(num_streams({.topology = {.processes = 3}, .streams = 8}), Error);
  EXPECT_THROW(num_streams({.topology = {.processes = 0}}), Error);
  EXPECT_THROW(num_streams({.topology = {.process = 2, .processes = 2}}), Error);
}

}  // namespace
}  // namespace millrace::wds

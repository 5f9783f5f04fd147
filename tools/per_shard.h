// per_shard: the same work on every shard, in parallel, with the results in the shards' order.
//
//   per_shard<Report>({.shards = urls, .threads = 4, .stop = stop}, check_shard,
//                     [&](Report report) { ... });
//
// Order: `take` gets the results in the order of the shards, one at a time, on any thread. Buffers:
// one result per thread, plus one. Throws: as `work` and `take`; Cancelled.
#pragma once

#include <tbb/parallel_pipeline.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <utility>

#include "io/base/error.h"
#include "tools/task_arena.h"

namespace millrace::tools {

struct PerShardInput {
  std::span<const std::string> shards;
  /// Shards in progress at once; 0: one per core.
  int threads = 0;
  std::stop_token stop = {};
};

template <typename Result>
void per_shard(const PerShardInput& input, const std::function<Result(const std::string&)>& work,
               const std::function<void(Result)>& take) {
  using Shared = std::shared_ptr<Result>;  // the filters' values must be copyable
  TaskArena threads(input.threads);
  std::size_t next = 0;
  const auto hand_out = [&](tbb::flow_control& flow) {
    if (input.stop.stop_requested()) throw Error(ErrorCode::kCancelled, "the work was stopped");
    if (next == input.shards.size()) flow.stop();
    return next++;
  };
  const auto run = [&](std::size_t shard) {
    return std::make_shared<Result>(work(input.shards[shard]));
  };
  const auto give = [&](const Shared& result) { take(std::move(*result)); };
  threads.execute([&] {
    tbb::parallel_pipeline(
        static_cast<std::size_t>(threads.num_threads()) + 1,
        tbb::make_filter<void, std::size_t>(tbb::filter_mode::serial_in_order, hand_out) &
            tbb::make_filter<std::size_t, Shared>(tbb::filter_mode::parallel, run) &
            tbb::make_filter<Shared, void>(tbb::filter_mode::serial_in_order, give));
  });
}

}  // namespace millrace::tools

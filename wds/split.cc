#include "wds/split.h"

#include <algorithm>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::wds {
namespace {

[[noreturn]] void invalid_split(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

std::string of_processes(int processes) {
  return std::to_string(processes) + (processes == 1 ? " process" : " processes");
}

void check_process(int process, int processes) {
  if (processes < 1) invalid_split("processes " + std::to_string(processes) + ": must be above 0");
  if (process < 0 || process >= processes) {
    invalid_split("process " + std::to_string(process) + " is outside of " +
                  of_processes(processes));
  }
}

std::vector<std::string> every(const std::vector<std::string>& shards, int first, int step) {
  std::vector<std::string> taken;
  for (auto i = static_cast<std::size_t>(first); i < shards.size();
       i += static_cast<std::size_t>(step)) {
    taken.push_back(shards[i]);
  }
  return taken;
}

}  // namespace

std::vector<std::string> split_by_process(const std::vector<std::string>& shards, int process,
                                          int processes) {
  check_process(process, processes);
  return every(shards, process, processes);
}

std::vector<std::string> split_by_worker(const std::vector<std::string>& shards, int worker,
                                         int workers) {
  if (workers < 1 || worker < 0 || worker >= workers) {
    invalid_split("worker " + std::to_string(worker) + " is outside of " + std::to_string(workers) +
                  " workers");
  }
  return every(shards, worker, workers);
}

int usual_workers(std::size_t num_shards, int processes) {
  constexpr std::size_t kMost = 4;
  const std::size_t own = num_shards / static_cast<std::size_t>(std::max(processes, 1));
  return static_cast<int>(std::clamp<std::size_t>(own, 1, kMost));
}

int num_streams(const SplitOptions& split) {
  const int processes = split.topology.processes;
  check_process(split.topology.process, processes);
  if (split.workers < 1) invalid_split("workers " + std::to_string(split.workers) + " is below 1");
  if (split.streams < 0) invalid_split("streams " + std::to_string(split.streams) + " is below 0");
  if (split.streams % processes != 0) {
    invalid_split(std::to_string(split.streams) + " streams cannot be shared evenly by " +
                  of_processes(processes));
  }
  const std::int64_t streams =
      split.streams > 0 ? split.streams : std::int64_t{processes} * split.workers;
  if (streams > kMaxStreams) {
    invalid_split(std::to_string(streams) + " streams: at most " + std::to_string(kMaxStreams));
  }
  return static_cast<int>(streams);
}

int stream_stripe(const SplitOptions& split) {
  const int streams = num_streams(split);
  const Topology& topology = split.topology;
  if (topology.devices < 1)
    invalid_split("devices " + std::to_string(topology.devices) + " is below 1");
  const bool by_user = split.process_splitter || split.worker_splitter;
  if (by_user || topology.processes == 1 || streams % topology.world_size() != 0) return 1;
  return topology.devices;
}

std::vector<int> streams_of_process(const SplitOptions& split) {
  const Topology& topology = split.topology;
  const int stripe = stream_stripe(split);
  const auto all = static_cast<std::uint64_t>(num_streams(split));
  std::vector<int> streams;
  for (std::uint64_t s = 0; s < all; ++s)
    if (process_of(s, stripe, topology.processes) == topology.process)
      streams.push_back(static_cast<int>(s));
  return streams;
}

void check_enough_shards(std::size_t num_shards, const SplitOptions& split) {
  const int streams = num_streams(split);
  if (num_shards >= static_cast<std::size_t>(streams)) return;
  const int processes = split.topology.processes;
  invalid_split(counted(num_shards, "shard") + (num_shards == 1 ? " is" : " are") +
                " too few for " + counted(static_cast<std::uint64_t>(streams), "stream") + " (" +
                of_processes(processes) + " x " + std::to_string(streams / processes) +
                "): use fewer streams or processes, or index the shards");
}

}  // namespace millrace::wds

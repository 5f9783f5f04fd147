#include "wds/split.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::wds {
namespace {

[[noreturn]] void invalid(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check_rank(int rank, int world) {
  if (world < 1) invalid("world " + std::to_string(world) + " is below 1");
  if (rank < 0 || rank >= world) {
    invalid("rank " + std::to_string(rank) + " is outside a world of " + std::to_string(world));
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

std::optional<std::string> process_environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr) return {};
  return value;
}

int to_int(const std::string& name, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    invalid("environment variable " + name + " is no number: '" + text + "'");
  }
  return value;
}

std::optional<RankAndWorld> rank_from(const Environment& environment, const char* rank_name,
                                      const char* world_name) {
  const auto rank = environment(rank_name);
  const auto world = environment(world_name);
  if (!rank || !world) return {};
  const RankAndWorld found{to_int(rank_name, *rank), to_int(world_name, *world)};
  check_rank(found.rank, found.world);
  return found;
}

}  // namespace

std::vector<std::string> split_by_node(const std::vector<std::string>& shards, int rank,
                                       int world) {
  check_rank(rank, world);
  return every(shards, rank, world);
}

std::vector<std::string> split_by_worker(const std::vector<std::string>& shards, int worker,
                                         int workers) {
  if (workers < 1 || worker < 0 || worker >= workers) {
    invalid("worker " + std::to_string(worker) + " is outside of " + std::to_string(workers) +
            " workers");
  }
  return every(shards, worker, workers);
}

RankAndWorld resolve_rank(std::optional<int> rank, std::optional<int> world,
                          const Environment& environment) {
  if (rank.has_value() != world.has_value()) invalid("rank and world are given together or not");
  if (rank) {
    check_rank(*rank, *world);
    return {*rank, *world};
  }
  constexpr std::array<std::pair<const char*, const char*>, 3> kNames = {
      {{"RANK", "WORLD_SIZE"},
       {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
       {"SLURM_PROCID", "SLURM_NTASKS"}}};
  const Environment look_up = environment ? environment : Environment(process_environment);
  // Launchers set many variables, so half a pair means nothing; but these two are set by hand.
  if (look_up("RANK").has_value() != look_up("WORLD_SIZE").has_value()) {
    invalid("environment variables RANK and WORLD_SIZE belong together: one of them is missing");
  }
  for (const auto& [rank_name, world_name] : kNames) {
    if (const auto found = rank_from(look_up, rank_name, world_name)) return *found;
  }
  return {};
}

int num_streams(const SplitOptions& split) {
  check_rank(split.rank, split.world);
  if (split.workers < 1) invalid("workers " + std::to_string(split.workers) + " is below 1");
  if (split.streams < 0) invalid("streams " + std::to_string(split.streams) + " is below 0");
  if (split.streams % split.world != 0) {
    invalid(std::to_string(split.streams) + " streams cannot be shared evenly by a world of " +
            std::to_string(split.world));
  }
  return split.streams > 0 ? split.streams : split.world * split.workers;
}

std::vector<int> streams_of_rank(const SplitOptions& split) {
  std::vector<int> streams;
  for (int s = split.rank; s < num_streams(split); s += split.world) streams.push_back(s);
  return streams;
}

void check_enough_shards(std::size_t num_shards, const SplitOptions& split) {
  const int streams = num_streams(split);
  if (num_shards >= static_cast<std::size_t>(streams)) return;
  invalid(counted(num_shards, "shard") + (num_shards == 1 ? " is" : " are") + " too few for " +
          counted(static_cast<std::uint64_t>(streams), "stream") +
          " (world " + std::to_string(split.world) + " x " +
          std::to_string(streams / split.world) + "): use fewer workers, or index the shards");
}

}  // namespace millrace::wds

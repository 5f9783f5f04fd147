// Splitting: which rank and worker reads which shard, and who this process is.
//
// Shard i belongs to rank i mod world and there to worker (i div world) mod workers: WebDataset's
// split_by_node followed by split_by_worker. As logical streams this is shard i → stream i mod
// (world * workers), with rank = stream mod world and worker = stream div world.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "wds/sample_stream.h"

namespace millrace::wds {

/// shards[rank::world]. Throws: InvalidArgument unless 0 <= rank < world.
std::vector<std::string> split_by_node(const std::vector<std::string>& shards, int rank, int world);
/// shards[worker::workers]. Throws: InvalidArgument unless 0 <= worker < workers.
std::vector<std::string> split_by_worker(const std::vector<std::string>& shards, int worker,
                                         int workers);

struct RankAndWorld {
  int rank = 0;
  int world = 1;
};

/// Looks up an environment variable.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

/// Rank and world size: the options when both are given, else RANK + WORLD_SIZE, else Open MPI's,
/// else Slurm's variables, else 0 of 1. Throws: InvalidArgument (not numbers, rank >= world, one
/// of two given).
RankAndWorld resolve_rank(std::optional<int> rank, std::optional<int> world,
                          const Environment& environment = {});

/// S for `split`. Throws: InvalidArgument (rank >= world, no multiple of world, counts below 1).
int num_streams(const SplitOptions& split);
/// The streams that `split.rank` owns: s mod world == rank, ascending.
std::vector<int> streams_of_rank(const SplitOptions& split);
/// Throws: InvalidArgument, with the numbers, when some stream would get no shard.
void check_enough_shards(std::size_t num_shards, const SplitOptions& split);

}  // namespace millrace::wds

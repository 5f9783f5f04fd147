// Splitting: which process and worker reads which shard.
//
// Shard i belongs to process i mod P, and within it to worker (i div P) mod workers: WebDataset's
// split_by_node followed by split_by_worker. In terms of streams, shard i belongs to stream i mod
// (P * workers), with process = stream mod P and worker = stream div P.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "wds/split_options.h"

namespace millrace::wds {

/// shards[process::processes], WebDataset's split_by_node. Throws: InvalidArgument unless
/// 0 <= process < processes.
std::vector<std::string> split_by_process(const std::vector<std::string>& shards, int process,
                                          int processes);
/// shards[worker::workers]. Throws: InvalidArgument unless 0 <= worker < workers.
std::vector<std::string> split_by_worker(const std::vector<std::string>& shards, int worker,
                                         int workers);

/// S for `split`, at least 1. Throws: InvalidArgument (process >= processes, streams not a multiple
/// of processes, counts below 1).
int num_streams(const SplitOptions& split);
/// The streams that `split.topology.process` owns: s mod processes == process, ascending; never
/// empty. Throws: as num_streams().
std::vector<int> streams_of_process(const SplitOptions& split);
/// Checks that every stream gets a shard. Throws: InvalidArgument, with the numbers, if one would
/// get none; as num_streams().
void check_enough_shards(std::size_t num_shards, const SplitOptions& split);

}  // namespace millrace::wds

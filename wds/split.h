// Splitting: how an epoch is divided among processes and their workers, and which of them reads
// which shard.
//
// Shard i belongs to process i mod P, and within it to worker (i div P) mod workers: WebDataset's
// split_by_node followed by split_by_worker. In terms of streams, shard i belongs to stream i mod
// (P * workers), with process = stream mod P and worker = stream div P.
//
// User-defined splitters see the epoch's list (after the shuffle, if shards are shuffled):
//
//   SplitOptions{.topology = {.process = 1, .processes = 4}, .workers = 2,
//                .process_splitter = [](const auto& shards, const SplitPart& process) {
//                  return those_on_disk(shards, process.index);
//                }};
//
// Threads: values and free functions, for any thread; splitters are called from many threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "io/base/topology.h"

namespace millrace::wds {

/// One of `count` processes, or of `count` workers of a process.
struct SplitPart {
  int index = 0;
  int count = 1;
};

/// A user-defined splitter: maps the epoch's list of shards to the sub-list of one part. Called for
/// each epoch and stream. It must be a pure function, since it decides the order of samples.
using ShardSplitter = std::function<std::vector<std::string>(const std::vector<std::string>& shards,
                                                             const SplitPart& part)>;

/// How an epoch is divided.
struct SplitOptions {
  /// Only `process` and `processes` are used: the devices of a process share its pipeline.
  Topology topology = {};
  /// Streams per process.
  int workers = 1;
  /// S, the number of streams over all processes; 0 means processes * workers. A multiple of
  /// `processes`, so that the order of the samples is the same for every number that divides it.
  int streams = 0;
  /// What a process reads, and what each worker reads of that. Default: split_by_process and
  /// split_by_worker. Shards may be omitted or shared; a stream without shards is an error.
  ShardSplitter process_splitter = {};
  ShardSplitter worker_splitter = {};
};

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

// Splitting: how an epoch is divided among processes and their workers, and which of them reads
// which shard.
//
// Shard i belongs to process i mod P, and within it to worker (i div P) mod workers: WebDataset's
// split_by_node followed by split_by_worker. In terms of streams, shard i belongs to stream i mod
// (P * workers), with process = stream mod P and worker = stream div P.
//
// Which process owns a stream decides nothing but where it is read, unless splitters say what is in
// it. So it is chosen for the devices: with P processes of D devices, W = P * D replicas, and
// streams that W divides, process p owns D streams of every W, from p * D on. The slots that
// streams take in turn then go to the replicas in turn, however they are spread over processes.
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
#include <cstdint>
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
  /// The devices of a process share its pipeline, and take its slots in turn.
  Topology topology = {};
  /// Streams per process.
  int workers = 1;
  /// S, the number of streams over all processes; 0 means processes * workers. A multiple of
  /// `processes`, so that the order of the samples is the same for every number that divides it. A
  /// multiple of the replicas, all devices of all processes, has the same samples in each replica
  /// however they are spread over processes.
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

/// The default of programs for SplitOptions::workers: as many as `num_shards` allow, at most 4. It
/// may depend on the data, never on the machine.
int usual_workers(std::size_t num_shards, int processes);
inline constexpr int kMaxStreams = 1 << 20;
/// S for `split`, from 1 to kMaxStreams. Throws: InvalidArgument (process >= processes, streams not
/// a multiple of processes, counts below 1, more streams).
int num_streams(const SplitOptions& split);
/// How many neighbouring streams, and slots, belong to one process before the next process's
/// follow: the devices of a process; 1 for a process alone, for streams that all devices do not
/// divide, and with splitters, whose streams are process + i * processes. Throws: as num_streams().
int stream_stripe(const SplitOptions& split);
/// The process that owns a stream, or takes a slot, of this number.
constexpr int process_of(std::uint64_t number, int stripe, int processes) {
  const std::uint64_t stripes = number / static_cast<std::uint64_t>(stripe);
  return static_cast<int>(stripes % static_cast<std::uint64_t>(processes));
}
/// The streams that `split.topology.process` owns, ascending; never empty. Throws: as
/// num_streams().
std::vector<int> streams_of_process(const SplitOptions& split);
/// Checks that every stream gets a shard. Throws: InvalidArgument, with the numbers, if one would
/// get none; as num_streams().
void check_enough_shards(std::size_t num_shards, const SplitOptions& split);

}  // namespace millrace::wds

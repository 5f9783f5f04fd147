// SplitOptions: how an epoch is divided among processes and their workers.
//
// User-defined splitters see the epoch's list (after the shuffle, if shards are shuffled):
//
//   SplitOptions{.topology = {.process = 1, .processes = 4}, .workers = 2,
//                .process_splitter = [](const auto& shards, const SplitPart& process) {
//                  return those_on_disk(shards, process.index);
//                }};
//
// Threads: a value type; splitters are called from many threads.
#pragma once

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

}  // namespace millrace::wds

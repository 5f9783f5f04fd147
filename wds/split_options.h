// SplitOptions: how an epoch is divided among processes and their workers.
//
// Own splitters see the epoch's list (shuffled, where shards are shuffled):
//
//   SplitOptions{.topology = {.process = 1, .processes = 4}, .workers = 2,
//                .process_splitter = [](const auto& shards, const SplitPart& process) {
//                  return those_on_disk(shards, process.index);
//                }};
//
// Threads: as a value; splitters are called from many threads.
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

/// A user's own splitter: the epoch's list of shards to the sub-list of one part. Called again for
/// each epoch and stream, and must give the same for the same: it decides the order of samples.
using ShardSplitter = std::function<std::vector<std::string>(const std::vector<std::string>& shards,
                                                             const SplitPart& part)>;

/// How an epoch is divided.
struct SplitOptions {
  /// Of it `process` and `processes` alone: a process's devices share its pipeline.
  Topology topology = {};
  /// Streams of a process.
  int workers = 1;
  /// S, the number of streams over all processes; 0 means processes * workers. A multiple of
  /// `processes`, so that the order of the samples is the same for every number that divides it.
  int streams = 0;
  /// What a process reads, and what each worker reads of that. Default: split_by_process and
  /// split_by_worker. Shards may be left out, or read by several; a stream without any is an error.
  ShardSplitter process_splitter = {};
  ShardSplitter worker_splitter = {};
};

}  // namespace millrace::wds

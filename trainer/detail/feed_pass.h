// A pass of all replicas of a run through a feed without training: evaluation, prediction.
//
// Each round has one batch per replica, and begins with a vote: which replicas have one, whether a
// stop was requested, whether an input failed. So all replicas end after the same round, those
// whose input ended earlier take part without a batch, and the group can be used afterwards.
//
// Threads: one at a time, while no replica computes.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "trainer/detail/processes.h"
#include "trainer/detail/replica_group.h"
#include "trainer/feed.h"

namespace millrace::trainer::detail {

struct FeedPass {
  ReplicaGroup& group;
  Processes& processes;
  EpochFeed& feed;
  std::stop_token stop = {};     ///< of this process; ends the pass on all
  std::int64_t max_batches = 0;  ///< per replica; 0: all
};

/// Calls `round` for each round, with null for a replica that has no batch, then `end` once, on
/// every replica's thread. Returns false, on every process, after a stop; then `end` is not called.
/// Throws: the fault of any process's input, on every process; otherwise what a replica threw.
bool run_pass(const FeedPass& pass,
              const std::function<void(Replica&, const pipeline::Batch*)>& round,
              const std::function<void(Replica&)>& end);

}  // namespace millrace::trainer::detail

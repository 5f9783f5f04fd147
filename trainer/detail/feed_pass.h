// A pass of all replicas of a run through a feed without training: evaluation, prediction.
//
// Each round takes one batch a replica, and begins with a vote: who has one, did anybody ask to
// stop, did an input fail. So all replicas end alike, those whose input ended earlier take part
// without a batch, and the group is of use afterwards.
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
  std::stop_token stop = {};     ///< this process's; one that is asked ends all
  std::int64_t max_batches = 0;  ///< a replica's; 0: all
};

/// Calls `round` for each round, with null for a replica that has no batch, then `end` once, on
/// every replica's thread. Returns false, on every process, after a stop; `end` is not called then.
/// Throws: on every process what one's input threw; else what a replica threw.
bool run_pass(const FeedPass& pass,
              const std::function<void(Replica&, const pipeline::Batch*)>& round,
              const std::function<void(Replica&)>& end);

}  // namespace millrace::trainer::detail

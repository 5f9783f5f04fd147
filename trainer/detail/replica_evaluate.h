// One replica's share of an exact evaluation: sums over its valid samples, reduced once at the end.
//
// Threads: the replica's device's own thread.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "trainer/detail/replica.h"
#include "trainer/feed.h"

namespace millrace::trainer::detail {

struct EvaluationContext {
  EpochFeed& feed;
  std::stop_token stop = {};
  std::int64_t max_batches = 0;               ///< a replica's; 0: all
  std::function<void(std::int64_t)> on_step;  ///< batches so far, on rank 0's thread
};

/// The objective's sums, then the number of valid samples; and its records.
struct EvaluationSums {
  std::vector<double> all;      ///< over all replicas
  std::vector<double> replica;  ///< this one's own
  std::vector<float> all_records;
  std::vector<float> replica_records;
};

/// Throws: Cancelled after a stop.
EvaluationSums evaluate_replica(const EvaluationContext& context, Replica& replica);

/// Throws: Exhausted when what is called `what` had no `samples`.
void check_not_empty(const std::string& what, std::int64_t samples, std::int64_t skipped);

}  // namespace millrace::trainer::detail

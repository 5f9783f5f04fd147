// An exact evaluation on all replicas of a run: sums over valid samples, reduced once at the end.
//
// Threads: one at a time, while no replica computes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trainer/detail/feed_pass.h"

namespace millrace::trainer::detail {

/// The objective's sums, then the number of valid samples; and its records.
struct EvaluationSums {
  std::vector<double> all = {};      ///< over all replicas, the same on every process
  std::vector<double> replica = {};  ///< of this process's first replica
  std::vector<float> all_records = {};
  std::vector<float> replica_records = {};
  std::int64_t skipped = 0;  ///< samples, by the fault policy, over all processes
  bool stopped = false;      ///< before the end, on every process: then nothing else is valid

  std::int64_t samples() const;
};

/// Calls `on_step` with the number of rounds so far, on rank 0's thread. Throws: as run_pass().
EvaluationSums evaluate_group(const FeedPass& pass,
                              const std::function<void(std::int64_t)>& on_step);

/// Throws, on every process: Exhausted if `samples` is 0; `what` names the epoch or evaluation.
void check_not_empty(Processes& processes, const std::string& what, std::int64_t samples,
                     std::int64_t skipped);

}  // namespace millrace::trainer::detail

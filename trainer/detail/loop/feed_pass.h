// A pass of all replicas of a run through a feed without training: evaluation, prediction.
//
// Each round has one batch per replica, and begins with a vote: which replicas have one, whether a
// stop was requested, whether an input failed. So all replicas end after the same round, those
// whose input ended earlier take part without a batch, and the group can be used afterwards.
//
// Threads: one at a time, while no replica computes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/topology.h"
#include "pipeline/batch.h"
#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/loop/failure.h"
#include "trainer/detail/loop/replica_group.h"
#include "trainer/events.h"
#include "trainer/feed.h"
#include "wds/fault_ledger.h"

namespace millrace::trainer::detail {

/// One replica's batches of an epoch's feed. What the feed throws is kept for the next vote of all
/// replicas, so that they end after the same step; after its end, or a failure, the feed is not
/// called again. Threads: the replica's device's own thread.
class ReplicaInput {
 public:
  /// `failure` keeps what the feed throws; both are borrowed. `device`: of this process.
  ReplicaInput(EpochFeed& feed, Failure& failure, int device)
      : feed_(feed), failure_(failure), device_(device) {}

  /// Waits for the next batch, unless the feed has ended or failed.
  void next() {
    if (has_ended_) return;
    failed_ = true;
    failure_.guard([&] {
      has_batch_ = feed_.next(device_, batch_);
      failed_ = false;
    });
    has_ended_ = failed_ || !has_batch_;
    has_batch_ = !has_ended_;
  }

  /// Of the last next().
  bool has_batch() const { return has_batch_; }
  bool failed() const { return failed_; }
  const pipeline::Batch& batch() const { return batch_; }

 private:
  EpochFeed& feed_;
  Failure& failure_;
  int device_;
  pipeline::Batch batch_;
  bool has_batch_ = false;
  bool has_ended_ = false;
  bool failed_ = false;
};

/// Whether the processes together have skipped more samples of an epoch than its fault policy
/// allows, which each of them alone has not: every process votes with its own before each step.
///
/// Threads: a replica's device's own thread.
class SkipLimit {
 public:
  /// `feed` and `failure`, which gets the fault, in every process the same, are borrowed. `device`:
  /// of this process.
  SkipLimit(const EpochFeed& feed, Failure& failure, int device, int processes);

  /// What this replica adds to the sums over all.
  std::array<double, 2> votes() const;
  /// Whether the sums are beyond the limit.
  bool is_exceeded(double read, double skipped);

 private:
  const EpochFeed& feed_;
  Failure& failure_;
  const int device_;
  const int processes_;
  const wds::FaultPolicy policy_;
};

struct FeedPass {
  ReplicaGroup& group;
  Processes& processes;
  EpochFeed& feed;
  std::stop_token stop = {};     ///< of this process; ends the pass on all
  std::int64_t max_batches = 0;  ///< per replica; 0: all
};

/// Which slots of the epoch a batch has, by which it is the same on any number of devices and
/// processes. A feed that does not say counts a process's batches, whose slots the processes take
/// in turn. `batch_size`: of a replica; 0: what each batch has.
pipeline::SlotNumbers slot_numbers(const pipeline::Batch& batch, std::int64_t batch_size,
                                   const Topology& topology);

/// Calls `round` for each round, with null for a replica that has no batch, then `end` once, on
/// every replica's thread. Returns false, on every process, after a stop; then `end` is not called.
/// Throws: the fault of any process's input, on every process; otherwise what a replica threw.
bool run_pass(const FeedPass& pass,
              const std::function<void(Replica&, const pipeline::Batch*)>& round,
              const std::function<void(Replica&)>& end);

/// The result of an exact evaluation. The objective's sums, then the number of valid samples; and
/// its records.
struct EvaluationSums {
  std::vector<double> all = {};                   ///< over all replicas, the same on every process
  std::vector<double> replica = {};               ///< of this process's first replica
  std::vector<std::vector<double>> by_rank = {};  ///< the same of every replica
  std::vector<float> all_records = {};
  std::vector<float> replica_records = {};
  /// Samples with an output that is not finite, over all replicas: then no measure is a number.
  std::int64_t non_finite = 0;
  std::int64_t skipped = 0;  ///< samples, by the fault policy, over all processes
  bool stopped = false;      ///< before the end, on every process: then nothing else is valid

  std::int64_t samples() const;
};

/// The measures, from the objective's sums followed by the number of samples.
NamedValues measures_of(const Objective& objective, const std::vector<double>& sums,
                        std::span<const float> records = {});

/// Why an evaluation's values cannot be used: "12 of 100 samples have outputs that are not finite",
/// or its loss is not; empty if they can.
std::string non_finite_text(std::int64_t non_finite, std::int64_t samples,
                            const NamedValues& values);

/// `objective`: that of the replicas; a DetailedObjective gathers what it has collected. Calls
/// `on_step` with the number of rounds so far, on rank 0's thread. Throws: as run_pass().
EvaluationSums evaluate_group(const FeedPass& pass, const Objective& objective,
                              const std::function<void(std::int64_t)>& on_step);

/// Throws, on every process: Exhausted if `samples` is 0; `what` names the epoch or evaluation.
void check_not_empty(Processes& processes, const std::string& what, std::int64_t samples,
                     std::int64_t skipped);

}  // namespace millrace::trainer::detail

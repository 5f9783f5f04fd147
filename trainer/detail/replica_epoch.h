// ReplicaEpoch: one replica's way through one epoch of training, step by step.
//
// Every replica makes the same collective calls in the same order: whatever only one of them knows
// (its batch has come, somebody asked to stop) is put to the vote that begins each batch.
//
// Threads: the replica's device's own thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/detail/replica.h"
#include "trainer/events.h"
#include "trainer/feed.h"
#include "trainer/fit.h"
#include "trainer/meter.h"
#include "trainer/optimizer.h"
#include "trainer/schedule.h"

namespace millrace::trainer::detail {

/// What all replicas of an epoch share.
struct EpochContext {
  const TrainOptions& options;
  const Schedule& schedule;
  Optimizer& optimizer;
  EpochFeed& feed;
  std::span<float> weights;
  std::int64_t epoch = 0;        ///< from 0
  std::int64_t first_step = 0;   ///< steps already taken in this epoch (resumed)
  std::int64_t global_step = 0;  ///< steps taken before this epoch's first one here
  std::int64_t steps_per_epoch = 0;
  std::vector<double> first_sums;  ///< of the steps already taken; empty: zeros
  /// Called on rank 0's thread.
  std::function<void(const StepEvent&)> on_step;
  /// Called on every rank's thread after each log_steps-th step.
  std::function<void(const StepEvent&)> on_log_step;
};

/// What a replica brings home.
struct EpochTotals {
  /// Over all replicas: one a measure, then the number of valid samples.
  std::vector<double> sums;
  std::int64_t replica_samples = 0;
  std::int64_t steps = 0;  ///< of the epoch, those before a resume included
  std::int64_t global_step = 0;
  std::int64_t skipped_steps = 0;
  bool stopped = false;
  std::int64_t batch_size = 0;
  StepTimes times;
  double seconds = 0;
  /// After this replica's last batch.
  std::shared_ptr<const pipeline::Position> position;
};

class ReplicaEpoch {
 public:
  /// `context` and `replica` are borrowed.
  ReplicaEpoch(const EpochContext& context, Replica& replica, const std::string& device);

  EpochTotals run();

 private:
  bool take_batch();
  void run_batch();
  void finish_step();
  bool reduce_step();
  void average_state();
  void update(double valid);
  void report(double loss);
  void restore_state();
  float learning_rate() const;

  const EpochContext& context_;
  Replica& replica_;
  std::string device_;
  pipeline::Batch batch_;
  double divisor_ = 1;  ///< valid samples of all replicas in this step
  bool stop_ = false;
  std::vector<double> step_sums_;
  std::vector<float> saved_state_;  ///< before the step, when steps may be skipped
  StepTimes times_;
  std::chrono::steady_clock::time_point lap_;
  RateMeter rate_;
  EpochTotals totals_;

  void lap(double& into);
};

}  // namespace millrace::trainer::detail

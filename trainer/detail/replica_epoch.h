// ReplicaEpoch: one replica's way through one epoch of training, step by step.
//
// Every replica makes the same collective calls in the same order: whatever only one of them knows
// (its batch has come, somebody asked to stop, it is time for a checkpoint) is put to the vote that
// begins each batch.
//
// A fault of the input is voted on too: every replica ends at the same step, with weights that a
// checkpoint may hold. What the broken step did to running statistics is taken back.
//
// Threads: the replica's device's own thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/detail/failure.h"
#include "trainer/detail/replica.h"
#include "trainer/events.h"
#include "trainer/feed.h"
#include "trainer/fit.h"
#include "trainer/meter.h"
#include "trainer/optimizer.h"
#include "trainer/schedule.h"

namespace millrace::trainer::detail {

/// What a replica brings home, or stands at after a step.
struct EpochTotals {
  /// Over all replicas: one a measure, then the number of valid samples.
  std::vector<double> sums = {};
  std::int64_t replica_samples = 0;
  std::int64_t steps = 0;  ///< of the epoch, those before a resume included
  std::int64_t global_step = 0;
  std::int64_t skipped_steps = 0;
  bool stopped = false;  ///< before the epoch's end
  /// Weights and statistics are those after `steps`: false while a step changes them.
  bool whole = true;
  std::int64_t batch_size = 0;
  StepTimes times = {};
  StepTimes first_times = {};  ///< of the first step
  double seconds = 0;
  /// After this replica's last batch of a finished step.
  std::shared_ptr<const pipeline::Position> position = {};
};

/// What all replicas of an epoch share.
struct EpochContext {
  const TrainOptions& options;
  const Schedule& schedule;
  Optimizer& optimizer;
  EpochFeed& feed;
  Failure& input_failure;  ///< what feed.next() throws is kept here; it stops the feed
  std::span<float> weights;
  std::span<float> ema = {};
  std::int64_t epoch = 0;        ///< from 0
  std::int64_t first_step = 0;   ///< steps already taken in this epoch (resumed)
  std::int64_t global_step = 0;  ///< steps taken before this epoch's first one here
  std::int64_t steps_per_epoch = 0;
  std::int64_t shown_steps = 0;          ///< steps_per_epoch for people: may be learnt
  std::vector<double> first_sums = {};   ///< of the steps already taken; empty: zeros
  std::span<EpochTotals> totals;         ///< one a replica
  std::function<bool()> stop_due;        ///< asked on rank 0's thread
  std::function<bool()> checkpoint_due;  ///< likewise
  std::function<void()> checkpoint;      ///< on rank 0's thread; all wait, `totals` are up to date
  /// Called on rank 0's thread before every step.
  std::function<void(const StepStart&)> on_step_start;
  /// Called on rank 0's thread after every step.
  std::function<void(const StepEvent&)> on_step;
  /// Called on every rank's thread after each log_steps-th step.
  std::function<void(const StepEvent&)> on_log_step;
};

class ReplicaEpoch {
 public:
  /// `context` and `replica` are borrowed.
  ReplicaEpoch(const EpochContext& context, Replica& replica, const std::string& device);

  /// Leaves what it did in context.totals.
  void run();

 private:
  void take_steps();
  bool take_batch();
  void begin_step();
  void tell_start();
  void run_batch();
  void backward(nn::Plan& plan);
  void finish_step();
  bool reduce_step();
  void average_state();
  double clip_values(double scale);
  Update make_update();
  void update();
  void follow_mean();
  void leave_out();
  void take_back();
  void checkpoint_if_due();
  void report();
  float learning_rate() const;
  void lap(double& into);
  void lap_reduce(std::chrono::nanoseconds waited_before);
  std::chrono::nanoseconds peer_wait() const;

  const EpochContext& context_;
  Replica& replica_;
  std::string device_;
  EpochTotals& totals_;
  pipeline::Batch batch_;
  std::int64_t batches_ = 0;        ///< of this replica in this epoch
  std::int64_t held_ = 0;           ///< batches of the step in work
  double valid_ = 0;                ///< their valid samples, of all replicas
  double divisor_ = 1;              ///< what the loss's gradient was divided by
  std::vector<float> accumulated_;  ///< gradients of the step's batches but the last
  std::vector<double> step_sums_;   ///< measures, valid samples, squared norm of the gradient
  std::vector<float> saved_state_;  ///< before the step
  std::shared_ptr<const pipeline::Position> position_ = {};  ///< after the last batch
  bool stop_ = false;
  bool input_failed_ = false;
  bool checkpoint_due_ = false;
  std::int64_t step_samples_ = 0;
  std::int64_t step_bytes_ = 0;
  StepTimes step_times_;
  std::chrono::steady_clock::time_point lap_;
  RateMeter rate_;
};

}  // namespace millrace::trainer::detail

// TrainStep: one replica's part of a step of training: forward and backward of micro-batches, whose
// gradients are accumulated, the sum over the replicas, and the update of the ranges of the weights
// that this replica owns.
//
//   TrainStep step({.options = options, .weights = weights}, replica, timer);
//   step.begin();
//   do step.add({.batch = &batch, .num_valid = 128, .batch_size = 64, .random_key = key});
//   while (!step.is_full() && more());
//   step.reduce();
//   step.average_buffers();
//   step.update(lr, global_step);
//
// Every replica makes the same calls in the same order: reduce(), average_buffers() and update()
// are collectives. If loss or gradients are not finite, the backend leaves the weights unchanged;
// was_finite() asks it, preferably after the next step has begun.
//
// Threads: the replica's own.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/base/rng.h"
#include "pipeline/batch.h"
#include "trainer/backend.h"
#include "trainer/detail/replica.h"
#include "trainer/events.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// How a replica spends its time within a step, as laps of one clock.
class StepTimer {
 public:
  /// Starts the first lap. `replica` is borrowed.
  explicit StepTimer(Replica& replica);

  /// Clears the times of the last step; the current lap continues.
  void begin_step() { times_ = {}; }
  /// Ends a lap, whose time is added to `part`.
  void lap(double StepTimes::*part);
  /// Ends a lap of collectives: the time waiting for slower replicas is added to peer_wait, the
  /// rest to reduce.
  void lap_collectives();
  const StepTimes& times() const { return times_; }

 private:
  double end_lap();
  std::chrono::nanoseconds peer_wait() const;

  Replica& replica_;
  StepTimes times_;
  std::chrono::steady_clock::time_point lap_;
  std::chrono::nanoseconds waited_;  ///< peer_wait() at the lap's start
};

/// What the replicas of a process share; borrowed.
struct TrainStepSetup {
  const TrainOptions& options;
  DeviceSpan weights;
  std::vector<DeviceSpan> states = {};
  DeviceSpan ema = {};  ///< empty: none is kept
};

struct MicroBatch {
  /// This replica's; null if its input has ended before another replica's. Then it takes part
  /// without a sample.
  const pipeline::Batch* batch = nullptr;
  double num_valid = 0;         ///< samples, of all replicas
  std::int64_t batch_size = 1;  ///< slots of one replica's batch
  nn::BatchKey random_key = {};
};

class TrainStep {
 public:
  TrainStep(const TrainStepSetup& setup, Replica& replica, StepTimer& timer);

  /// Starts a step without micro-batches, and keeps a copy of the buffers.
  void begin();
  /// Computes one. Throws: what the plan and the objective throw.
  void add(const MicroBatch& micro);
  bool is_empty() const { return micro_batches_ == 0; }
  /// Whether it has all micro-batches of a step; an epoch's last step may have fewer.
  bool is_full() const { return micro_batches_ == setup_.options.accumulate; }

  /// Sums gradients and measures over the replicas. Until it returns, only buffers have changed, on
  /// any replica.
  void reduce();
  /// Replaces the buffers by their mean over the replicas that had a batch, so that they are equal
  /// on all.
  void average_buffers();
  /// Updates this replica's ranges of the weights and their EMA. A step without a valid sample
  /// changes nothing; one whose loss or gradients are not finite restores the buffers.
  /// `global_step` counts from 1.
  void update(float lr, std::int64_t global_step);
  /// Returns when all processes' ranges of the weights have come; until then, after update(), only
  /// forward passes of this class may read them.
  void await_weights() { await_weights(0); }
  /// Whether loss and gradients of the last update() were finite: equal on all replicas.
  bool was_finite() { return !has_updated_ || updater_->was_finite(); }
  /// Restores the buffers to their values at begin().
  void restore_buffers();

  /// After reduce(), over all replicas: the objective's sums, then the number of valid samples.
  std::span<const double> sums() const { return std::span(sums_).first(sums_.size() - 1); }
  std::int64_t num_samples() const { return num_samples_; }  ///< valid ones, of this replica
  std::int64_t num_bytes() const { return num_bytes_; }      ///< of this replica's batches

 private:
  double& sum_of_samples() { return sums_[sums_.size() - 2]; }
  double& sum_of_replicas() { return sums_.back(); }

  void run_batch(const MicroBatch& micro);
  void await_weights(std::size_t offset);
  void backward(nn::Plan& plan);
  void complete_gradients();

  TrainStepSetup setup_;
  Replica& replica_;
  StepTimer& timer_;
  std::int64_t micro_batches_ = 0;
  double num_valid_ = 0;  ///< of all replicas
  double divisor_ = 1;    ///< what the loss's gradient is divided by
  std::int64_t num_samples_ = 0;
  std::int64_t num_bytes_ = 0;
  bool has_batch_ = false;    ///< any micro-batch of this replica's own
  bool is_reducing_ = false;  ///< the reducer has begun with the step's gradients
  bool has_updated_ = false;  ///< in the last update()
  /// The objective's, then valid samples, replicas that had a batch.
  std::vector<double> sums_;
  DeviceBuffer accumulated_;  ///< gradients of the micro-batches but the last
  DeviceBuffer kept_buffers_;
  std::unique_ptr<Updater> updater_;
};

}  // namespace millrace::trainer::detail

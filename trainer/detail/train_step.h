// TrainStep: one replica's way through a step of training: micro-batches go forward and backward,
// their gradients add up, are summed over the replicas, and change what this replica owns of the
// weights.
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
// are collectives. Whether loss and gradients were finite is known to the backend, which leaves the
// weights alone if not; was_finite() asks it, preferably after the next step has begun.
//
// Threads: the replica's own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "io/base/rng.h"
#include "pipeline/batch.h"
#include "trainer/backend.h"
#include "trainer/detail/replica.h"
#include "trainer/detail/step_timer.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// What the replicas of a run share; borrowed.
struct TrainStepSetup {
  const TrainOptions& options;
  DeviceSpan weights;
  std::vector<DeviceSpan> states = {};
  DeviceSpan ema = {};  ///< empty: none is kept
  /// Other processes have weights of their own: each update ends with giving them to all.
  bool gathers_weights = false;
};

struct MicroBatch {
  /// This replica's; null where its input has ended before another replica's. Then it takes part in
  /// the step with no sample.
  const pipeline::Batch* batch = nullptr;
  double num_valid = 0;         ///< samples, of all replicas
  std::int64_t batch_size = 1;  ///< slots of one replica's batch
  nn::BatchKey random_key = {};
};

class TrainStep {
 public:
  TrainStep(const TrainStepSetup& setup, Replica& replica, StepTimer& timer);

  /// Starts a step: no micro-batch is taken, the buffers are those to come back to.
  void begin();
  /// Takes one. Throws: what the plan and the objective throw.
  void add(const MicroBatch& micro);
  bool is_empty() const { return micro_batches_ == 0; }
  /// Whether it has as many micro-batches as a step takes; the epoch's last one may have fewer.
  bool is_full() const { return micro_batches_ == setup_.options.accumulate; }

  /// Sums gradients and measures over the replicas. Until it has returned nothing has changed but
  /// the buffers, on any replica.
  void reduce();
  /// The buffers become their mean over the replicas that had a batch: rank 0's are all there is to
  /// save.
  void average_buffers();
  /// Updates this replica's slices of the weights and their EMA; a step without a valid sample
  /// leaves them as they are, and so does one whose loss or gradients are not finite, which takes
  /// the buffers back too. `global_step` counts from 1.
  void update(float lr, std::int64_t global_step);
  /// Whether the last update() found all finite: equal on all replicas.
  bool was_finite() { return !has_updated_ || updater_->was_finite(); }
  /// Puts the buffers back to where the step began.
  void restore_buffers();

  /// After reduce(), over all replicas: the objective's sums, then the number of valid samples.
  std::span<const double> sums() const { return std::span(sums_).first(sums_.size() - 1); }
  std::int64_t num_samples() const { return num_samples_; }  ///< valid ones, of this replica
  std::int64_t num_bytes() const { return num_bytes_; }      ///< of this replica's batches

 private:
  double& sum_of_samples() { return sums_[sums_.size() - 2]; }
  double& sum_of_replicas() { return sums_.back(); }

  void run_batch(const MicroBatch& micro);
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

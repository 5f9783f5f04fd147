// ComposedStep: a step of training as a plan's forward and backward, whose gradients are
// accumulated, a reducer's sums over the replicas beside the last backward, and an updater's update
// of the ranges of the weights that this replica owns.
//
// Other processes' updates are gathered beside the next step's forward pass.
//
// Threads: the replica's own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainer/composed_backend.h"
#include "trainer/detail/step/composed_replica.h"
#include "trainer/detail/step/weight_gather.h"

namespace millrace::trainer::detail {

class ComposedStep final : public ReplicaStep {
 public:
  /// `replica` is borrowed.
  ComposedStep(ComposedReplica& replica, const StepSetup& setup);

  void add(const MicroBatch& micro) override;
  void apply(const StepNumbers& numbers) override;
  StepOutcome outcome() override;
  void await_weights() override;
  void discard() override;
  bool is_intact() const override { return is_intact_; }

 private:
  double& sum_of_samples() { return sums_[sums_.size() - 2]; }
  double& sum_of_replicas() { return sums_.back(); }
  /// The objective's part of sums_.
  std::span<double> own_sums() { return std::span(sums_).first(sums_.size() - 2); }
  DeviceSpan buffers() const { return replica_.setup().buffers; }
  const Objective& objective() const { return replica_.setup().objective; }
  Collectives& control() { return replica_.setup().control; }

  void begin();
  double divisor_for(const MicroBatch& first);
  void run_batch(const MicroBatch& micro);
  void wait_for(std::size_t offset);
  void backward(nn::Plan& plan);
  void complete_gradients();
  void reduce();
  void average_buffers();
  void update(const StepNumbers& numbers);
  void gather(DeviceSpan values);

  ComposedReplica& replica_;
  ComposedBackend& backend_;
  StepSetup setup_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<WeightGather> weight_gather_;  ///< null if there is one process
  DeviceBuffer accumulated_;                     ///< gradients of the micro-batches but the last
  DeviceBuffer kept_buffers_;
  std::unique_ptr<Updater> updater_;

  std::int64_t micro_batches_ = 0;
  double num_valid_ = 0;  ///< of all replicas
  double divisor_ = 1;    ///< what the loss's gradient is divided by
  std::int64_t num_samples_ = 0;
  bool has_batch_ = false;    ///< any micro-batch of this replica's own
  bool is_reducing_ = false;  ///< the reducer has begun with the step's gradients
  bool has_updated_ = false;  ///< in the last apply()
  bool is_intact_ = true;
  /// The objective's, then valid samples, replicas that had a batch.
  std::vector<double> sums_;
};

}  // namespace millrace::trainer::detail

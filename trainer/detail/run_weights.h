// RunWeights: what a run changes, as named tensors: the weights, their running statistics, their
// mean, and the optimizer's state.
//
// Threads: one at a time, while no replica computes.
#pragma once

#include <span>
#include <vector>

#include "trainer/checkpoint.h"
#include "trainer/detail/replica_group.h"
#include "trainer/model.h"
#include "trainer/optimizer.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

class RunWeights {
 public:
  /// All borrowed.
  RunWeights(const Model& model, ReplicaGroup& group, Optimizer& optimizer)
      : model_(model), group_(group), optimizer_(optimizer) {}

  /// Start values: the model's own, or a file's. Throws: as load_weights().
  void initialise(const TrainOptions& options);
  /// For checkpoints.
  CheckpointTensors tensors();
  /// Empty where none is kept.
  std::span<float> mean() { return mean_; }
  /// The mean takes the weights' place, and the weights the mean's.
  void swap_mean();

 private:
  const Model& model_;
  ReplicaGroup& group_;
  Optimizer& optimizer_;
  std::vector<float> mean_;
};

}  // namespace millrace::trainer::detail

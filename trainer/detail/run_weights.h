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

 private:
  friend class MeanInPlace;
  void swap_mean();

  const Model& model_;
  ReplicaGroup& group_;
  Optimizer& optimizer_;
  std::vector<float> mean_;
};

/// While it lives, the mean has the weights' place, and the weights the mean's; where no mean is
/// kept it does nothing.
class MeanInPlace {
 public:
  explicit MeanInPlace(RunWeights& weights) : weights_(weights) { weights_.swap_mean(); }
  ~MeanInPlace() { weights_.swap_mean(); }
  MeanInPlace(const MeanInPlace&) = delete;
  MeanInPlace& operator=(const MeanInPlace&) = delete;

 private:
  RunWeights& weights_;
};

}  // namespace millrace::trainer::detail

// RunWeights: what a run changes, as named tensors: the weights, the buffers, the weights' EMA, and
// the optimizer's state.
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
  std::span<float> ema() { return ema_; }

 private:
  friend class EmaInPlace;
  void swap_ema();

  const Model& model_;
  ReplicaGroup& group_;
  Optimizer& optimizer_;
  std::vector<float> ema_;
};

/// While it lives, the EMA has the weights' place, and the weights the EMA's; where no EMA is kept
/// it does nothing.
class EmaInPlace {
 public:
  explicit EmaInPlace(RunWeights& weights) : weights_(weights) { weights_.swap_ema(); }
  ~EmaInPlace() { weights_.swap_ema(); }
  EmaInPlace(const EmaInPlace&) = delete;
  EmaInPlace& operator=(const EmaInPlace&) = delete;

 private:
  RunWeights& weights_;
};

}  // namespace millrace::trainer::detail

// RunWeights: what a run changes, as named tensors: weights, buffers, the weights' EMA, and the
// optimizer's state.
//
// Threads: one at a time, while no replica computes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/checkpoint.h"
#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/loop/replica_group.h"
#include "trainer/model.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

class RunWeights {
 public:
  /// `model` and `group` are borrowed. Throws: InvalidArgument for fields of the optimizer that
  /// are out of range or contradict each other.
  RunWeights(const Model& model, ReplicaGroup& group, const OptimizerOptions& optimizer);

  /// Sets start values: the model's own, or a file's. Throws: as load_weights().
  void initialise(const TrainOptions& options);
  /// Copies process 0's values to all processes and replicas.
  void copy_from_first(Processes& processes);
  /// For checkpoints; complete after ReplicaStep::await_weights() of every replica.
  CheckpointTensors tensors();
  /// Empty if none is kept.
  DeviceSpan ema() const { return ema_.span; }
  /// The optimizer's, in the order of UpdateRule::state_names().
  std::vector<DeviceSpan> states() const;

 private:
  friend class EmaInPlace;
  void initialise_model(std::uint64_t seed);
  void swap_ema();

  const Model& model_;
  ReplicaGroup& group_;
  std::vector<std::string> state_names_;
  std::vector<DeviceBuffer> states_;
  DeviceBuffer ema_;
};

/// While one exists, EMA and weights are swapped; without an EMA it does nothing.
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

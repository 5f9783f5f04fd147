// RunWeights: what a run changes, as named tensors: the weights, the buffers, the weights' EMA, and
// the optimizer's state.
//
// Threads: one at a time, while no replica computes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/checkpoint.h"
#include "trainer/detail/processes.h"
#include "trainer/detail/replica_group.h"
#include "trainer/model.h"
#include "trainer/train_options.h"
#include "trainer/update_rule.h"

namespace millrace::trainer::detail {

class RunWeights {
 public:
  /// `model` and `group` are borrowed. Throws: InvalidArgument for an unknown optimizer, and for
  /// options of it that contradict each other.
  RunWeights(const Model& model, ReplicaGroup& group, const OptimizerOptions& optimizer);

  /// Start values: the model's own, or a file's. Throws: as load_weights().
  void initialise(const TrainOptions& options);
  /// Gives all processes, and all replicas, what process 0 has.
  void copy_from_first(Processes& processes);
  /// Gives all processes this replica's share of what training does not gather by itself: the
  /// optimizer's state and the EMA. On every replica's thread; a collective.
  void gather(Replica& replica);
  /// For checkpoints: whole after gather().
  CheckpointTensors tensors();
  /// Empty where none is kept.
  DeviceSpan ema() const { return ema_.span; }
  /// The optimizer's, one a UpdateRule::state_names().
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

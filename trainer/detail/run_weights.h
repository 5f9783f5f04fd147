// RunWeights: what a run changes, as named tensors: weights, buffers, the weights' EMA, and the
// optimizer's state.
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

  /// Sets start values: the model's own, or a file's. Throws: as load_weights().
  void initialise(const TrainOptions& options);
  /// Copies process 0's values to all processes and replicas.
  void copy_from_first(Processes& processes);
  /// Copies this replica's ranges of what training does not gather, or gathers rounded, to all
  /// processes: weights, the optimizer's state and the EMA. On every replica's thread; a
  /// collective.
  void gather(Replica& replica);
  /// For checkpoints; complete after gather().
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

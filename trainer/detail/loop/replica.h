// Replica: one device's part of a run, as the loop has it: its rank, its running statistics, and
// the steps that its backend makes.
//
// Threads: its device's own thread, one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "trainer/backend.h"
#include "trainer/collectives.h"
#include "trainer/step_clock.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// A replica's groups for training, each for one thread of it; borrowed.
struct TrainingGroups {
  Collectives* gradients = nullptr;  ///< null: never trains
  Collectives* weights = nullptr;    ///< null: the weights are this process's alone
};

class Replica {
 public:
  /// Allocates `setup.buffers`. `evaluation_model`: for its evaluations' pictures; null: the model.
  Replica(Backend& backend, const ReplicaSetup& setup, const TrainingGroups& groups,
          const Model* evaluation_model);

  /// Of all replicas of the run.
  int rank() const { return setup_.control.rank(); }
  /// Of this process's devices: an index into what there is one of per device.
  int device() const { return setup_.device; }
  const Model& model() const { return setup_.model; }
  const Objective& objective() const { return setup_.objective; }
  Collectives& control() { return setup_.control; }
  DeviceSpan buffers() const { return buffers_.span; }
  StepClock& clock() { return clock_; }

  /// Makes step(), which works on `states` and `ema`, too. Lifetime: as StepSetup. Throws: as
  /// BackendReplica::make_step().
  void make_step(const TrainOptions& options, std::vector<DeviceSpan> states, DeviceSpan ema);
  /// Requires: make_step().
  ReplicaStep& step() { return *step_; }
  std::unique_ptr<EvaluationStep> make_evaluation();
  std::unique_ptr<PredictionStep> make_prediction() { return steps_->make_prediction(); }
  /// Writes a parameter's start values, to the EMA, too. Requires: make_step(). Threads: while no
  /// replica of the process computes.
  void write_start(std::size_t parameter, std::span<const float> values);
  /// To be called after the host has written weights or buffers.
  void weights_changed() { steps_->weights_changed(); }
  /// What was compiled since the last call.
  std::vector<CompileEvent> take_compilations();

 private:
  DeviceBuffer buffers_;
  ReplicaSetup setup_;
  TrainingGroups groups_;
  StepClock clock_;
  std::unique_ptr<BackendReplica> steps_;
  std::unique_ptr<BackendReplica> evaluates_;  ///< null: `steps_` do
  std::unique_ptr<ReplicaStep> step_;
  Backend& backend_;
  DeviceSpan ema_ = {};
};

}  // namespace millrace::trainer::detail

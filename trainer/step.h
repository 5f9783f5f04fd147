// Steps: what a backend makes of a replica's batches: training, evaluation, prediction.
//
// The loop hands over batches and numbers and learns outcomes; what happens in between is the
// backend's. The CPU's steps are composed of a plan, an objective, a reducer and an updater
// (trainer/composed_backend.h); another backend may make one program of a whole step.
//
//   const auto replica = backend.make_replica({.model = model, .objective = objective,
//       .weights = weights.span, .buffers = buffers.span, .control = *control[rank]});
//   const auto step = replica->make_step({.optimizer = optimizer, .states = states,
//       .gradient_group = *gradients[rank], .clock = clock});
//   step->add({.batch = &batch, .num_valid = 128, .batch_size = 64, .random_key = key});
//   step->apply({.lr = 0.1F, .step = 1});
//   const StepOutcome outcome = step->outcome();
//
// All that changes from step to step is an argument: rates, scales, keys, the number of the step
// and of valid samples. A backend compiles only for another shape of batch.
//
// Threads: all of a replica's objects on its device's own thread; make_evaluation() and
// make_prediction() also on another while no replica computes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "io/base/trace.h"
#include "pipeline/batch.h"
#include "trainer/collectives.h"
#include "trainer/device_span.h"
#include "trainer/events.h"
#include "trainer/gradient_reducer.h"
#include "trainer/model.h"
#include "trainer/nn/plan.h"
#include "trainer/objective.h"
#include "trainer/optimizer.h"
#include "trainer/step_clock.h"

namespace millrace::trainer {

struct MicroBatch {
  /// This replica's; null if its input has ended before another's. Then it takes part without a
  /// sample. Lifetime: until add() returns.
  const pipeline::Batch* batch = nullptr;
  double num_valid = 0;         ///< samples, of all replicas
  std::int64_t batch_size = 1;  ///< slots of one replica's batch
  nn::BatchKey random_key = {};
};

/// What came of a step, the same on all replicas.
struct StepOutcome {
  std::vector<double> sums = {};  ///< the objective's, over all replicas
  double samples = 0;             ///< valid ones, of all replicas
  /// Whether loss and gradients were; otherwise the step has changed nothing.
  bool is_finite = true;

  bool changes() const { return is_finite && samples > 0; }
};

/// One replica's part of a step of training. All replicas make the same calls in the same order,
/// apply() and await_weights() being collectives, and add(), too, if the objective is one; they
/// meet (a vote) between apply() and the next add().
class ReplicaStep {
 public:
  virtual ~ReplicaStep() = default;

  /// Adds a micro-batch to the step, of which there are at most StepSetup::accumulate: may compute
  /// its gradients, or only keep it. Throws: what the objective throws for a batch (Corrupt with
  /// the sample's key).
  virtual void add(const MicroBatch& micro) = 0;
  /// Ends the step: gradients are summed over the replicas and divided by the number of valid
  /// samples, clipped, and change the weights, the rule's state and the EMA; running statistics are
  /// replaced by their mean over the replicas that had a sample. A step without a valid sample, or
  /// whose loss or gradients are not finite on any replica, changes none of these.
  /// Where the steps run ahead, only the first call's `skipped` counts: the device counts on.
  virtual void apply(const StepNumbers& numbers) = 0;
  /// Whether a device may still work on a step after its apply() has returned: then the loop asks
  /// for the outcome after the next apply(), or where it must know it.
  virtual bool runs_ahead() const { return false; }
  /// Of the oldest apply() that was not asked for: waits for it. Requires: there is one.
  virtual StepOutcome outcome() = 0;
  /// Returns when weights, state and EMA are in this process's buffers as the last apply() made
  /// them, of all ranks, in full: before the host reads them, or an evaluation.
  virtual void await_weights() = 0;
  /// Forgets the micro-batches that were added since the last apply(): weights, state and buffers
  /// are those after it.
  virtual void discard() = 0;
  /// False while apply() changes what the run keeps, and after it failed while it did: then a
  /// failure leaves no state that can be saved.
  virtual bool is_intact() const = 0;
};

/// What a replica's evaluation has found so far, of this replica alone.
struct EvaluationOutcome {
  std::vector<double> sums = {};  ///< the objective's
  double samples = 0;             ///< valid ones
  std::vector<float> records = {};
  /// Samples with an output that is not finite. Then the sums' loss is not a number: a NaN would
  /// rank as a hit.
  std::int64_t non_finite = 0;
};

/// Scores batches with the weights as they are.
class EvaluationStep {
 public:
  virtual ~EvaluationStep() = default;

  /// Scores a batch, or begins to. Throws: as Objective::score().
  virtual void add(const pipeline::Batch& batch) = 0;
  /// Of all batches added: waits for them.
  virtual EvaluationOutcome outcome() = 0;
};

/// Computes a model's outputs with the weights as they are.
class PredictionStep {
 public:
  virtual ~PredictionStep() = default;

  /// Each of the model's outputs, in the host's memory. Lifetime: until the next call.
  virtual std::vector<nn::OutputView> outputs(const pipeline::Batch& batch) = 0;
};

/// What a training step works on; borrowed.
struct StepSetup {
  const OptimizerOptions& optimizer;
  ClipOptions clip = {};
  double ema_decay = 0.0;
  std::int64_t accumulate = 1;  ///< micro-batches in a step; an epoch's last one may have fewer
  GradientReducerOptions reducer = {};
  std::vector<DeviceSpan> states = {};  ///< in the order of UpdateRule::state_names()
  DeviceSpan ema = {};                  ///< empty: none is kept
  Collectives& gradient_group;          ///< the step's own, on any one thread at a time
  Collectives* weight_group = nullptr;  ///< likewise; null: the run is this process alone
  StepClock& clock;                     ///< on which the step's calls make laps
};

/// One device's part of a run; borrowed. A process makes all of its replicas, which share their
/// weights, before their steps.
struct ReplicaSetup {
  int device = 0;  ///< of this process
  const Model& model;
  const Objective& objective;
  nn::Precision precision = nn::Precision::kBFloat16;
  DeviceSpan weights;    ///< this process's; its replicas share them
  DeviceSpan buffers;    ///< running statistics, this replica's own
  Collectives& control;  ///< the replica's thread's, for use within a call
  TraceTrack trace = {};
};

/// Makes one device's steps, which share what they compile.
class BackendReplica {
 public:
  virtual ~BackendReplica() = default;

  /// Called once at most, before other steps are used. Lifetime: this object's, as those below.
  /// Throws: InvalidArgument for options that contradict each other; Unsupported for a model or
  /// rule that the backend does not have.
  virtual std::unique_ptr<ReplicaStep> make_step(const StepSetup& setup) = 0;
  virtual std::unique_ptr<EvaluationStep> make_evaluation() = 0;
  virtual std::unique_ptr<PredictionStep> make_prediction() = 0;
  /// To be called after the host has written weights or buffers.
  virtual void weights_changed() = 0;
  /// What was compiled since the last call: whether a run's shapes keep changing.
  virtual std::vector<CompileEvent> take_compilations() = 0;
};

}  // namespace millrace::trainer

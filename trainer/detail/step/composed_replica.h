// ComposedReplica: one device's steps, composed of its backend's plans, reducer and updater.
//
// The weights are shared by all replicas of the process; each replica writes only the slices that
// its reducer owns, and only while no replica computes. Training and evaluation share the plans:
// each combination of batch size and input type is compiled once.
//
// Threads: its device's own thread, one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

#include "trainer/composed_backend.h"

namespace millrace::trainer::detail {

class ComposedReplica final : public BackendReplica {
 public:
  /// `backend` is borrowed.
  ComposedReplica(ComposedBackend& backend, const ReplicaSetup& setup)
      : backend_(backend), setup_(setup) {}

  std::unique_ptr<ReplicaStep> make_step(const StepSetup& setup) override;
  std::unique_ptr<EvaluationStep> make_evaluation() override;
  std::unique_ptr<PredictionStep> make_prediction() override;
  void weights_changed() override;
  std::vector<CompileEvent> take_compilations() override;

  ComposedBackend& backend() { return backend_; }
  const ReplicaSetup& setup() const { return setup_; }
  /// Of the plans; empty in a run that does not train.
  DeviceSpan gradients() const { return gradients_.span; }

  /// Computes a batch's outputs by the plan for its shape, compiled at the first.
  nn::Plan& forward(const pipeline::Batch& batch, nn::Mode mode,
                    const nn::ParametersNeeded& needed = {}, const nn::BatchKey& key = {});
  /// Traces the layers of a pass that began then and has ended, if the trace shows layers: one
  /// after the other, since it is known how long each took and not when it began.
  void trace_layers(const nn::Plan& plan, nn::PlanPass pass, TraceEvent::Time begin) const;
  /// Adds the sums of the last batch that `request.plan` has computed to `sums`. If any valid
  /// sample has an output that is not finite, the loss added is not a number. Returns how many
  /// have.
  std::int64_t score(const ScoreRequest& request, std::span<double> sums);

 private:
  using Key = std::tuple<std::int64_t, decode::DType>;

  /// What a plan's steps took, if a trace shows layers.
  struct LayerTimes {
    std::vector<nn::PlanPass> passes;
    std::vector<const char*> names;
    std::vector<double> seconds;
  };

  void time_layers(nn::Plan& plan);
  nn::Plan& plan_for(const pipeline::Batch& batch);
  std::unique_ptr<nn::Plan> compile(const pipeline::Batch& batch, decode::DType dtype);

  ComposedBackend& backend_;
  ReplicaSetup setup_;
  DeviceBuffer gradients_;
  std::map<Key, std::unique_ptr<nn::Plan>> plans_;
  std::map<const nn::Plan*, LayerTimes> layers_;
  std::vector<CompileEvent> compilations_;
};

}  // namespace millrace::trainer::detail

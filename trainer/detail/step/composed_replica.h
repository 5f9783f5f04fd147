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
  /// Adds the sums of the last batch that `request.plan` has computed to `sums`. If any valid
  /// sample has an output that is not finite, the loss added is not a number. Returns how many
  /// have.
  std::int64_t score(const ScoreRequest& request, std::span<double> sums);

 private:
  using Key = std::tuple<std::int64_t, decode::DType>;

  nn::Plan& plan_for(const pipeline::Batch& batch);
  std::unique_ptr<nn::Plan> compile(const pipeline::Batch& batch, decode::DType dtype);

  ComposedBackend& backend_;
  ReplicaSetup setup_;
  DeviceBuffer gradients_;
  std::map<Key, std::unique_ptr<nn::Plan>> plans_;
  std::vector<CompileEvent> compilations_;
};

}  // namespace millrace::trainer::detail

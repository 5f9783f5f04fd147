// PjrtReplica: one device's steps, and ReplicaTeam: the replicas of a process that share weights,
// on whose devices one program runs.
//
// Threads: a replica as BackendReplica; a team's steps meet in apply().
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "trainer/pjrt/flat_buffer.h"
#include "trainer/pjrt/programs.h"
#include "trainer/step.h"

namespace millrace::trainer {

class PjrtStep;

class ReplicaTeam {
 public:
  explicit ReplicaTeam(ProgramsSetup setup) : programs_(std::move(setup)) {}

  Programs& programs() { return programs_; }
  void join();
  void leave(std::size_t device);
  int size() const;
  void add(std::size_t device, PjrtStep& step);
  /// Of all replicas, in the order of their devices.
  std::vector<PjrtStep*> steps() const;

  /// False from when a program is given the weights until its results are theirs, and for ever if
  /// it fails.
  bool has_weights() const { return has_weights_; }
  void set_has_weights(bool has) { has_weights_ = has; }

 private:
  Programs programs_;
  mutable std::mutex mutex_;
  std::atomic<bool> has_weights_ = true;
  int size_ = 0;
  std::map<std::size_t, PjrtStep*> steps_;
};

class PjrtReplica final : public BackendReplica {
 public:
  /// `setup` is borrowed as BackendReplica's.
  PjrtReplica(std::shared_ptr<ReplicaTeam> team, const ReplicaSetup& setup);
  ~PjrtReplica() override;

  std::unique_ptr<ReplicaStep> make_step(const StepSetup& setup) override;
  std::unique_ptr<EvaluationStep> make_evaluation() override;
  std::unique_ptr<PredictionStep> make_prediction() override;
  /// FlatBuffer::write() has dropped what the devices had.
  void weights_changed() override {}
  std::vector<CompileEvent> take_compilations() override;

  const ReplicaSetup& setup() const { return setup_; }
  ReplicaTeam& team() { return *team_; }
  const device::pjrt::Client& client() { return team_->programs().client(); }
  std::size_t device() const { return static_cast<std::size_t>(setup_.device); }
  const nn::Graph& graph() const { return *setup_.model.graph(); }

  const CompiledProgram& program(ProgramKind kind, const BatchShape& shape = {}) {
    return team_->programs().get({.kind = kind, .shape = shape}, compilations_);
  }
  /// This device's.
  const DeviceArrays& weights();
  const DeviceArrays& buffers();
  /// Throws: as Objective::score(), for the batch's targets.
  void check_targets(const pipeline::Batch& batch) const;
  /// Runs a program of one device on a batch, by the weights as they are.
  DeviceArrays run(const CompiledProgram& program, const pipeline::Batch& batch);

 private:
  std::shared_ptr<ReplicaTeam> team_;
  ReplicaSetup setup_;
  std::vector<nn::Shape> outputs_;
  std::vector<CompileEvent> compilations_;
};

}  // namespace millrace::trainer

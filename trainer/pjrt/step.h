// PjrtStep: one replica's part of a step that is a program. With one micro-batch, and one process
// or several that the plugin connects, a step is one program of all replicas; else each micro-batch
// is a program of its device, and the update another of all replicas.
//
// Nothing waits for the devices but outcome(): while they compute, the next batch is copied.
// Processes that are not connected wait for the gradients that they sum.
//
// Threads: as ReplicaStep. The team's first step runs the program for all, between two barriers.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "trainer/pjrt/programs.h"
#include "trainer/pjrt/replica.h"

namespace millrace::trainer {

class PjrtStep final : public ReplicaStep {
 public:
  /// Throws: InvalidArgument for options that contradict each other; Unsupported for what has no
  /// StableHLO.
  PjrtStep(PjrtReplica& replica, const StepSetup& setup);

  void add(const MicroBatch& micro) override;
  void apply(const StepNumbers& numbers) override;
  bool runs_ahead() const override { return true; }
  StepOutcome outcome() override;
  void await_weights() override;
  void discard() override;
  bool is_intact() const override { return is_intact_ && replica_.team().has_weights(); }

 private:
  /// What a step's program has returned; empty: the step had no sample.
  struct Results {
    DeviceArrays sums, samples, is_finite;
  };
  /// The step's micro-batches, added up on the device.
  struct Accumulated {
    DeviceArrays gradients, sums, samples, buffers;
  };

  bool has_several_processes() const;
  bool sums_on_host() const;
  bool is_first() const;
  void keep(const MicroBatch& micro);
  void accumulate(const MicroBatch& micro);
  void complete_sums();
  void sum_over_processes();
  std::vector<float> flat(const ParameterTable& table, const DeviceArrays& arrays) const;
  void land_numbers(const StepNumbers& numbers);
  void skip(const StepNumbers& numbers);
  void run_all();
  BatchShape shape_of_step(const std::vector<PjrtStep*>& steps);
  const CompiledProgram& program_of(const std::vector<PjrtStep*>& steps);
  std::vector<const device::pjrt::Buffer*> arguments(const hlo::Program& program);
  void take(const hlo::Program& program, DeviceArrays results);
  StepOutcome read(const Results& results) const;
  void check_same_weights();
  void forget();

  PjrtReplica& replica_;
  StepSetup setup_;
  std::vector<std::string> state_names_;
  bool is_split_;
  bool has_base_lr_;         ///< whether programs take it
  double num_valid_ = 0;     ///< of the step so far, of all replicas; likewise:
  double divisor_ = 0;       ///< of its micro-batches' gradients; 0: none was added
  bool has_sample_ = false;  ///< this replica
  std::int64_t slots_ = 1;   ///< of a replica's batch
  std::optional<BatchArrays> batch_;
  DeviceArrays key_, lr_, base_lr_, step_, valid_, divisor_array_;
  DeviceArrays skipped_;  ///< StepNumbers::skipped of the next step; empty before the first
  Accumulated accumulated_;
  std::deque<Results> pending_;
  bool is_intact_ = true;  ///< false once a program was found to have failed
};

}  // namespace millrace::trainer

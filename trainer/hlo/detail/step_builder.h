// StepBuilder: the parts of a step of training, of which its programs are put together: the whole
// step as one, or a micro-batch's gradients and the update by their sum.
//
//   StepBuilder step(setup, options, "step");
//   step.take_state();  step.take_batch();  step.take_numbers();  step.take_key();
//   step.compute(step.num_valid());  step.reduce();  step.update();
//   return step.finish_step();
//
// Threads: as builder.h's.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/hlo/detail/program_builder.h"

namespace millrace::trainer::hlo {

class StepBuilder {
 public:
  /// `options` is borrowed.
  StepBuilder(const ProgramSetup& setup, const StepProgramOptions& options, std::string name);

  // Arguments, in the order of the calls.
  /// Weights, the rule's states, EMA and running statistics, all to be replaced.
  void take_state();
  /// Weights and running statistics, which stay.
  void take_weights();
  void take_batch();
  void take_key();
  void take_numbers();  ///< the rates, the step's number, the number of valid samples
  /// What micro-batches have added up so far, and whether this is the first, which begins anew.
  void take_accumulated();
  /// The sums of micro-batches, and what gradients of them were divided by.
  void take_sums();

  /// max(num_valid, 1): what the gradients of a whole step are divided by.
  Tensor num_valid() const { return max(num_valid_, 1.0); }
  /// The divisor that a micro-batch is given.
  const Tensor& divisor() const { return divisor_; }

  /// Forward, losses, backward, of this replica.
  void compute(const Tensor& divisor);
  /// Adds what was computed to what was accumulated; a batch without a sample adds nothing.
  void accumulate();
  /// Scales the sums of gradients to a mean over the step's samples.
  void scale_sums();
  /// Sums over the replicas. One without a sample counts nowhere, in the buffers' mean neither.
  void reduce();
  /// Checks that all is finite, clips, and updates weights, states, EMA and running statistics.
  void update();

  /// Results of a step, and of a micro-batch.
  Program finish_step();
  Program finish_accumulation();

 private:
  Tensor marked(const Tensor& sums, const std::vector<Tensor>& outputs) const;
  Tensor counted(const Tensor& x) const;
  void check_finite();
  void clip();
  Tensor share_left(const ParameterSettings& group) const;
  Tensor rate_of(const ParameterSettings& group) const;
  void update(std::size_t number, const Parameter& parameter);

  const StepProgramOptions& options_;
  std::unique_ptr<UpdateRule> rule_;
  ProgramBuilder program_;
  Builder& builder_;
  std::vector<Tensor> weights_, ema_, buffers_, new_buffers_, inputs_, gradients_;
  std::vector<std::vector<Tensor>> states_;  // by the rule's state, then by parameter
  std::vector<Tensor> before_;               // gradients of the micro-batches before
  std::map<std::string, Tensor> targets_;
  Tensor valid_, lr_, base_lr_, step_, rule_step_, skipped_;
  Tensor num_valid_, divisor_, samples_, sums_, is_finite_, changes_;
  Tensor is_first_, samples_before_, sums_before_;
  RandomKey key_;
};

}  // namespace millrace::trainer::hlo

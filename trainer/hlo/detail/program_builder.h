// ProgramBuilder: a module's arguments and results, each with what it is; and the parts that a
// step, an evaluation and a prediction share.
//
// Threads: as builder.h's.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trainer/hlo/detail/graph_program.h"
#include "trainer/hlo/program.h"
#include "trainer/hlo/score_program.h"

namespace millrace::trainer::hlo {

class ProgramBuilder {
 public:
  /// Throws: as the functions of program.h, for what all programs need.
  ProgramBuilder(const ProgramSetup& setup, std::string name);

  Builder& builder() { return builder_; }
  const nn::Graph& graph() const { return graph_; }
  const ProgramSetup& setup() const { return setup_; }

  /// Adds an argument.
  Tensor take(ProgramValue value);
  /// One per parameter of the model's table; `state` names the rule's.
  std::vector<Tensor> take_parameters(Role role, const std::string& state = {});
  std::vector<Tensor> take_buffers();
  /// The model's inputs, as the batch has them: in the order of the graph's.
  std::vector<Tensor> take_inputs();
  /// The heads' targets by field, labels as int32; in training those of mixtures, too.
  std::map<std::string, Tensor> take_targets(bool training);
  /// Flags (N).
  Tensor take_valid();

  /// Adds a result.
  void give(ProgramValue value, const Tensor& tensor);
  /// Adds a result that takes the place of the argument with the same role, name and state.
  void replace(const ProgramValue& value, const Tensor& tensor);
  void replace_parameters(Role role, const std::vector<Tensor>& tensors,
                          const std::string& state = {});
  void replace_buffers(const std::vector<Tensor>& tensors);

  GraphProgram run(GraphArguments arguments) const;
  /// Throws: Unsupported for an objective without StableHLO.
  ScoreResults score(const ScoreArguments& arguments) const;
  Program finish();

 private:
  /// Of numbers that are too large for int32 if `whole`.
  Tensor take_target(const ProgramValue& value, bool whole);
  Tensor normalised(const Tensor& bytes) const;

  ProgramSetup setup_;
  const nn::Graph& graph_;
  Builder builder_;
  Program program_;
  std::vector<Result> results_;
};

/// The sum of flags, float32 without dimensions.
Tensor number_of(const Tensor& flags);
/// Flags (N) of the slots with an output that is not finite.
Tensor non_finite_slots(const std::vector<Tensor>& outputs);

}  // namespace millrace::trainer::hlo

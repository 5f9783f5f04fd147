// Programs: a step of training, an evaluation and a prediction as StableHLO modules, which any
// device compiles that has a PJRT plugin.
//
// A step is whole: forward, losses, backward, the sum over replicas, the check for finite values,
// clipping, the update rule, the EMA and the running statistics. One module is every replica's;
// weights, the rule's states, the EMA and buffers are donated arguments, which their results
// replace in place. All that changes from step to step is an argument.
//
//   const Program program = make_step_program(
//       {.model = model, .objective = objective, .batch_size = 128, .replicas = 8},
//       {.optimizer = {.rule = Sgd{.momentum = 0.9F}}});
//   write(program.text);                    // and program_json(program), which says what is what
//
// What the host must still do: check labels and targets (a label outside the classes has no logit
// here, and no message), and give a replica without a batch any values with no valid slot.
//
// Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decode/array_view.h"
#include "trainer/hlo/builder.h"
#include "trainer/model.h"
#include "trainer/nn/plan.h"
#include "trainer/objective.h"
#include "trainer/optimizer.h"

namespace millrace::trainer::hlo {

/// What an argument or a result is.
enum class Role {
  kWeight,        ///< a parameter of the model's table
  kState,         ///< of the update rule, for one parameter
  kEma,           ///< a parameter's mean
  kBuffer,        ///< of the model's table of buffers
  kInput,         ///< a field of the batch that the model reads
  kTarget,        ///< a field that a loss reads
  kValid,         ///< (N), 1 where the slot has a sample
  kLearningRate,  ///< without dimensions, as those below
  kBaseRate,      ///< StepNumbers::base_lr, where a group falls by itself
  kStep,          ///< from 1, over the whole run
  kSkipped,     ///< of the steps before, and as a result with this one, those that changed nothing
  kNumValid,    ///< the step's valid samples, of all replicas
  kRandomKey,   ///< (4): seed, epoch, index of the first slot, stride (nn::BatchKey), as bits
  kDivisor,     ///< what the gradients of micro-batches are divided by
  kIsFirst,     ///< not 0 for a step's first micro-batch, before which nothing is accumulated
  kGradient,    ///< a parameter's, summed over micro-batches
  kNewBuffer,   ///< a buffer after the step's micro-batches so far
  kSums,        ///< the objective's: of all replicas in a step, else of this one
  kNumSamples,  ///< valid ones, likewise
  kIsFinite,    ///< whether loss and gradients were: otherwise nothing has changed
  kNonFinite,   ///< samples with an output that is not finite, of an evaluation
  kOutput,      ///< of the model: float32, (N, ...), images (N, C, H, W)
};

/// "weight", "learning_rate".
std::string_view role_name(Role role);

struct ProgramValue {
  std::string name;  ///< of the parameter, buffer, field or output; else the role's
  Role role = Role::kWeight;
  Type type = Type::kFloat32;
  Shape shape = {};
  std::string state = {};  ///< of Role::kState: "momentum_buffer"
  /// Of an argument: the result that takes its memory.
  std::optional<std::size_t> donated_to = {};
};

struct Program {
  std::string name;  ///< "step", "gradients", "update", "evaluation", "prediction"
  std::string text;
  int replicas = 1;
  std::vector<ProgramValue> arguments = {};
  std::vector<ProgramValue> results = {};
};

/// The arguments and results, in order, as a JSON document.
std::string program_json(const Program& program);

/// What becomes of images that come as bytes: (x / 255 - mean) / deviation, by channel.
struct Normalisation {
  std::vector<float> mean;
  std::vector<float> deviation;
};

/// Borrowed.
struct ProgramSetup {
  const Model& model;
  const Objective& objective;
  std::int64_t batch_size = 1;  ///< slots of one replica
  nn::Precision precision = nn::Precision::kBFloat16;
  /// Of the model's inputs: float32, bf16, or uint8, of which images are normalised by `bytes`.
  decode::DType input_dtype = decode::DType::kFloat32;
  Normalisation bytes = {};
  int replicas = 1;
};

struct StepProgramOptions {
  OptimizerOptions optimizer = {};
  ClipOptions clip = {};
  std::optional<double> ema_decay = {};  ///< none: no EMA is kept
};

/// Each throws: Unsupported, by name, for a model without a graph, and a layer, loss, rule or
/// objective without StableHLO; InvalidArgument for a setup or options that contradict each other.
Program make_step_program(const ProgramSetup& setup, const StepProgramOptions& options);
/// The same step in two programs, for several micro-batches, or for what the host sums. Of one
/// micro-batch: gradients, sums and number of samples of this replica are added to those before.
Program make_gradient_program(const ProgramSetup& setup);
/// The sums over replicas and all that follows. `setup` is the gradients'; of it with one replica a
/// program takes what was summed already: gradients, sums and samples of all, the buffers' mean.
Program make_update_program(const ProgramSetup& setup, const StepProgramOptions& options);
/// With the objective's sums of this replica; outputs for a measure that needs every sample's.
Program make_evaluation_program(const ProgramSetup& setup);
Program make_prediction_program(const ProgramSetup& setup);

}  // namespace millrace::trainer::hlo

#include "trainer/hlo/program.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "trainer/hlo/detail/program_builder.h"

namespace millrace::trainer::hlo {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const ProgramValue& value) {
  Json json = {{"name", value.name},
               {"role", role_name(value.role)},
               {"type", type_name(value.type)},
               {"shape", value.shape}};
  if (!value.state.empty()) json["state"] = value.state;
  if (value.donated_to) json["donated_to"] = *value.donated_to;
  return json;
}

Json json_of(const std::vector<ProgramValue>& values) {
  Json json = Json::array();
  for (const ProgramValue& value : values) json.push_back(json_of(value));
  return json;
}

bool needs_records(const Head& head) {
  return std::ranges::count(head.metrics, Metric::kAuroc) > 0;
}

GraphProgram run_forward(ProgramBuilder& program) {
  GraphArguments arguments;
  arguments.training = false;
  arguments.weights = program.take_parameters(Role::kWeight);
  arguments.buffers = program.take_buffers();
  arguments.inputs = program.take_inputs();
  return program.run(std::move(arguments));
}

}  // namespace

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kWeight:
      return "weight";
    case Role::kState:
      return "state";
    case Role::kEma:
      return "ema";
    case Role::kBuffer:
      return "buffer";
    case Role::kInput:
      return "input";
    case Role::kTarget:
      return "target";
    case Role::kValid:
      return "valid";
    case Role::kLearningRate:
      return "learning_rate";
    case Role::kBaseRate:
      return "base_rate";
    case Role::kStep:
      return "step";
    case Role::kSkipped:
      return "skipped";
    case Role::kNumValid:
      return "num_valid";
    case Role::kRandomKey:
      return "random_key";
    case Role::kDivisor:
      return "divisor";
    case Role::kIsFirst:
      return "is_first";
    case Role::kGradient:
      return "gradient";
    case Role::kNewBuffer:
      return "new_buffer";
    case Role::kSums:
      return "sums";
    case Role::kNumSamples:
      return "num_samples";
    case Role::kIsFinite:
      return "is_finite";
    case Role::kNonFinite:
      return "non_finite";
    case Role::kOutput:
      return "output";
  }
  return "";
}

std::string program_json(const Program& program) {
  const Json json = {{"program", program.name},
                     {"replicas", program.replicas},
                     {"arguments", json_of(program.arguments)},
                     {"results", json_of(program.results)}};
  return json.dump(1) + "\n";
}

Program make_evaluation_program(const ProgramSetup& setup) {
  ProgramBuilder program(setup, "evaluation");
  const GraphProgram graph = run_forward(program);
  const std::vector<Tensor>& outputs = graph.outputs();
  const auto targets = program.take_targets(false);
  const Tensor valid = program.take_valid();
  Builder& builder = program.builder();
  const Scope scope(builder, "loss");
  const ScoreResults score = program.score({.outputs = outputs,
                                            .targets = targets,
                                            .valid = valid,
                                            .divisor = scalar(builder, 1.0),
                                            .gradients = false});
  program.give({.name = "sums", .role = Role::kSums}, score.sums);
  program.give({.name = "num_samples", .role = Role::kNumSamples}, number_of(valid));
  program.give({.name = "non_finite", .role = Role::kNonFinite},
               number_of(both(non_finite_slots(outputs), valid)));
  const auto heads = setup.objective.heads();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const bool is_recorded = std::ranges::any_of(
        heads, [i](const Head& head) { return head.output == i && needs_records(head); });
    if (is_recorded)
      program.give({.name = program.graph().outputs()[i].name, .role = Role::kOutput}, outputs[i]);
  }
  return program.finish();
}

Program make_prediction_program(const ProgramSetup& setup) {
  ProgramBuilder program(setup, "prediction");
  const GraphProgram graph = run_forward(program);
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    program.give({.name = program.graph().outputs()[i].name, .role = Role::kOutput},
                 graph.outputs()[i]);
  return program.finish();
}

}  // namespace millrace::trainer::hlo

#include "trainer/hlo/detail/program_builder.h"

#include <fmt/format.h>

#include <utility>

#include "io/base/error.h"
#include "trainer/hlo/layers/layers.h"

namespace millrace::trainer::hlo {
namespace {

const nn::Graph& graph_of(const Model& model) {
  if (model.graph() != nullptr) return *model.graph();
  throw Error(ErrorCode::kUnsupported,
              "model " + model.name() + " is not a graph, of which a program is made");
}

Type input_type(decode::DType dtype) {
  switch (dtype) {
    case decode::DType::kFloat32:
      return Type::kFloat32;
    case decode::DType::kBFloat16:
      return Type::kBFloat16;
    case decode::DType::kUInt8:
      return Type::kUint8;
    default:
      break;
  }
  throw Error(ErrorCode::kInvalidArgument, "a program's inputs are float32, bf16 or uint8, not " +
                                               std::string(decode::dtype_name(dtype)));
}

/// A batch's: images (N, H, W, C), features (N, F).
Shape input_shape(std::int64_t batch, const nn::Shape& sample) {
  if (sample.size() == 3) return {batch, sample[1], sample[2], sample[0]};
  return {batch, sample[0]};
}

Shape output_shape(std::int64_t batch, const nn::Shape& sample) {
  Shape shape = {batch};
  shape.insert(shape.end(), sample.begin(), sample.end());
  return shape;
}

/// What a loss of this kind compares an output with.
ProgramValue target_of(const Head& head, TargetKind kind, const Shape& output) {
  ProgramValue target{.name = head.target, .role = Role::kTarget};
  if (kind == TargetKind::kShares || kind == TargetKind::kValues) {
    target.shape = output;
    return target;
  }
  const bool of_pixels = kind == TargetKind::kPixelClasses;
  if (output.size() != (of_pixels ? 4U : 2U))
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} compares {}, and output {} has the shape {}", head.loss.type().name().word,
                    of_pixels ? "images of classes" : "a class of each sample", head.output,
                    nn::shape_text(output)));
  target.type = Type::kInt64;
  target.shape = {output[0]};
  if (of_pixels) target.shape.insert(target.shape.end(), output.begin() + 2, output.end());
  return target;
}

/// With those of a mixture: the other label, and the first one's share.
std::vector<ProgramValue> targets_of(const Head& head, const Shape& output, bool training) {
  std::vector<ProgramValue> targets;
  for (const std::string& field : target_fields(head, training)) {
    targets.push_back(target_of(head, head.loss.make()->target(), output));
    targets.back().name = field;
  }
  if (targets.size() == 3) targets.back().type = Type::kFloat32;
  return targets;
}

bool is_same(const ProgramValue& a, const ProgramValue& b) {
  return a.role == b.role && a.name == b.name && a.state == b.state;
}

}  // namespace

ProgramBuilder::ProgramBuilder(const ProgramSetup& setup, std::string name)
    : setup_(setup),
      graph_(graph_of(setup.model)),
      builder_({.module = name, .replicas = setup.replicas}),
      program_{.name = std::move(name), .text = {}, .replicas = setup.replicas} {
  require(setup.batch_size > 0 && setup.replicas > 0, "a program needs a batch and a replica");
  require(setup.objective.inputs().size() == graph_.inputs().size(),
          fmt::format("the model has {} inputs, the objective names {}", graph_.inputs().size(),
                      setup.objective.inputs().size()));
  for (const nn::Node& node : graph_.nodes()) check_supported(node);
}

Tensor ProgramBuilder::take(ProgramValue value) {
  std::string name = value.name;
  if (value.role == Role::kState) name = value.state + "." + name;
  if (value.role == Role::kEma) name = "ema." + name;
  if (value.role == Role::kGradient) name = "gradient." + name;
  if (value.role == Role::kNewBuffer) name = "new." + name;
  if (value.role == Role::kInput || value.role == Role::kTarget) name = "batch." + name;
  program_.arguments.push_back(std::move(value));
  const ProgramValue& kept = program_.arguments.back();
  return builder_.argument(name, kept.type, kept.shape);
}

std::vector<Tensor> ProgramBuilder::take_parameters(Role role, const std::string& state) {
  std::vector<Tensor> tensors;
  for (const Parameter& entry : graph_.parameters().entries())
    tensors.push_back(
        take({.name = entry.name, .role = role, .shape = entry.shape, .state = state}));
  return tensors;
}

std::vector<Tensor> ProgramBuilder::take_buffers() {
  std::vector<Tensor> tensors;
  for (const Parameter& entry : graph_.buffers().entries())
    tensors.push_back(take({.name = entry.name, .role = Role::kBuffer, .shape = entry.shape}));
  return tensors;
}

std::vector<Tensor> ProgramBuilder::take_inputs() {
  std::vector<Tensor> tensors;
  const Type type = input_type(setup_.input_dtype);
  for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
    const nn::Node& node = graph_.node(graph_.inputs()[i]);
    const Tensor given = take({.name = setup_.objective.inputs()[i],
                               .role = Role::kInput,
                               .type = type,
                               .shape = input_shape(setup_.batch_size, node.shape)});
    const Scope scope(builder_, node.name);
    const bool is_image = given.rank() == 4;  // what is not, such as tokens, is as it is
    tensors.push_back(type != Type::kUint8 ? given : is_image ? normalised(given) : float32(given));
  }
  return tensors;
}

Tensor ProgramBuilder::normalised(const Tensor& bytes) const {
  const auto channels = static_cast<std::size_t>(bytes.shape.back());
  const Normalisation& by = setup_.bytes;
  require(by.mean.size() == channels && by.deviation.size() == channels,
          fmt::format("bytes of {} channels are normalised by a mean and a deviation of each",
                      channels));
  Builder& builder = *bytes.builder;
  const auto wide = [&](const std::vector<float>& values) {
    return along(constant(builder, values, {bytes.shape.back()}), bytes.rank() - 1, bytes.shape);
  };
  return (float32(bytes) / 255.0 - wide(by.mean)) / wide(by.deviation);
}

std::map<std::string, Tensor> ProgramBuilder::take_targets(bool training) {
  std::map<std::string, Tensor> tensors;
  for (const Head& head : setup_.objective.heads()) {
    require(
        head.output < graph_.outputs().size(),
        fmt::format("the objective reads output {} of {}", head.output, graph_.outputs().size()));
    const nn::Node& node = graph_.node(graph_.outputs()[head.output].value);
    const bool of_samples = head.loss.make()->target() == TargetKind::kSamples;
    for (const ProgramValue& value :
         targets_of(head, output_shape(setup_.batch_size, node.shape), training)) {
      const auto known = tensors.find(value.name);
      if (known == tensors.end())
        tensors.emplace(value.name, take_target(value, of_samples));
      else
        require(known->second.shape == value.shape,
                "outputs of different shapes are compared with field " + value.name);
    }
  }
  return tensors;
}

Tensor ProgramBuilder::take_target(const ProgramValue& value, bool whole) {
  const Tensor given = take(value);
  const Scope scope(builder_, value.name);
  return value.type == Type::kInt64 && !whole ? convert(given, Type::kInt32) : given;
}

Tensor ProgramBuilder::take_valid() {
  const Tensor valid = take(
      {.name = "valid", .role = Role::kValid, .type = Type::kUint8, .shape = {setup_.batch_size}});
  const Scope scope(builder_, "valid");
  return compare(valid, Order::kNotEqual, 0.0);
}

void ProgramBuilder::give(ProgramValue value, const Tensor& tensor) {
  value.type = tensor.type;
  value.shape = tensor.shape;
  program_.results.push_back(std::move(value));
  results_.push_back({tensor, std::nullopt});
}

void ProgramBuilder::replace(const ProgramValue& value, const Tensor& tensor) {
  for (std::size_t i = 0; i < program_.arguments.size(); ++i) {
    if (!is_same(program_.arguments[i], value)) continue;
    program_.arguments[i].donated_to = results_.size();
    give(value, tensor);
    results_.back().donated = i;
    return;
  }
}

void ProgramBuilder::replace_parameters(Role role, const std::vector<Tensor>& tensors,
                                        const std::string& state) {
  const auto& entries = graph_.parameters().entries();
  for (std::size_t i = 0; i < entries.size(); ++i)
    replace({.name = entries[i].name, .role = role, .state = state}, tensors[i]);
}

void ProgramBuilder::replace_buffers(const std::vector<Tensor>& tensors) {
  const auto& entries = graph_.buffers().entries();
  for (std::size_t i = 0; i < entries.size(); ++i)
    replace({.name = entries[i].name, .role = Role::kBuffer}, tensors[i]);
}

GraphProgram ProgramBuilder::run(GraphArguments arguments) const {
  arguments.bf16 = setup_.precision == nn::Precision::kBFloat16;
  return GraphProgram(graph_, std::move(arguments));
}

ScoreResults ProgramBuilder::score(const ScoreArguments& arguments) const {
  auto results = setup_.objective.stablehlo(arguments);
  if (!results)
    throw Error(ErrorCode::kUnsupported, "the objective (" + setup_.objective.measures().front() +
                                             ", ...) has no StableHLO");
  return *std::move(results);
}

Program ProgramBuilder::finish() {
  program_.text = builder_.finish(results_);
  return std::move(program_);
}

Tensor number_of(const Tensor& flags) { return sum(float32(flags), dimensions_of(flags)); }

Tensor non_finite_slots(const std::vector<Tensor>& outputs) {
  std::optional<Tensor> finite;
  for (const Tensor& output : outputs) {
    std::vector<std::int64_t> values = dimensions_of(output);
    values.erase(values.begin());
    const Tensor one = all(is_finite(output), values);
    finite = finite ? both(*finite, one) : one;
  }
  return inverse(*finite);
}

}  // namespace millrace::trainer::hlo

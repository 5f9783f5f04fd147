#include "trainer/hlo/detail/graph_program.h"

#include <algorithm>
#include <utility>

#include "trainer/hlo/layers/layers.h"
#include "trainer/nn/fusion.h"

namespace millrace::trainer::hlo {
namespace {

/// The CPU's plan rounds what it stores: a group's result, but not the model's outputs.
std::vector<bool> stored_nodes(const nn::Graph& graph) {
  std::vector<bool> stored(graph.nodes().size(), false);
  for (const nn::Value input : graph.inputs()) stored[input.node] = true;
  for (const nn::Group& group : nn::fuse(graph)) stored[group.result] = true;
  for (const nn::GraphOutput& output : graph.outputs()) stored[output.value.node] = false;
  return stored;
}

void add(std::optional<Tensor>& to, const std::optional<Tensor>& part) {
  if (part) to = to ? *to + *part : part;
}

/// (N, H, W, C) as the losses read it, (N, C, H, W), and back.
Tensor to_output(const Tensor& x) {
  return float32(x.rank() == 4 ? transpose(x, {0, 3, 1, 2}) : x);
}
Tensor from_output(const Tensor& x) { return x.rank() == 4 ? transpose(x, {0, 2, 3, 1}) : x; }

}  // namespace

GraphProgram::GraphProgram(const nn::Graph& graph, GraphArguments arguments)
    : graph_(graph),
      arguments_(std::move(arguments)),
      values_(graph.nodes().size()),
      learns_(graph.nodes().size(), false),
      stored_(stored_nodes(graph)),
      backward_(graph.nodes().size()),
      gradients_(graph.nodes().size()),
      weight_gradients_(graph.parameters().entries().size()) {
  const Type kept = arguments_.bf16 ? Type::kBFloat16 : Type::kFloat32;
  for (std::size_t i = 0; i < graph.inputs().size(); ++i)
    values_[graph.inputs()[i].node] = convert(arguments_.inputs.at(i), kept);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) run(i);
  for (const nn::GraphOutput& output : graph.outputs()) {
    const Tensor& value = values_[output.value.node];
    const Scope scope(*value.builder, output.name);
    outputs_.push_back(to_output(value));
  }
}

LayerArguments GraphProgram::arguments_of(std::size_t number) const {
  const nn::Node& node = graph_.nodes()[number];
  LayerArguments at{.node = node, .number = number, .inputs = {}};
  for (const nn::Value input : node.inputs) {
    at.inputs.push_back(values_[input.node]);
    at.wants_gradient.push_back(learns_[input.node]);
  }
  if (node.weight != nn::kNoParameter) at.weight = arguments_.weights.at(node.weight);
  if (node.bias != nn::kNoParameter) at.bias = arguments_.weights.at(node.bias);
  if (node.buffers != nn::kNoParameter)
    for (std::size_t i = 0; i < 3; ++i)
      at.buffers.push_back(arguments_.buffers.at(node.buffers + i));
  at.training = arguments_.training;
  at.bf16 = arguments_.bf16;
  at.key = arguments_.key;
  return at;
}

void GraphProgram::run(std::size_t number) {
  const nn::Node& node = graph_.nodes()[number];
  if (std::holds_alternative<nn::Input>(node.layer)) return;
  check_supported(node);
  const LayerArguments at = arguments_of(number);
  const Scope scope(at.builder(), node.name);
  LayerResults results = node_program(at);
  learns_[number] = at.weight || at.bias || std::ranges::count(at.wants_gradient, true) > 0;
  const bool rounds = arguments_.bf16 && stored_[number];
  values_[number] = convert(results.output, rounds ? Type::kBFloat16 : Type::kFloat32);
  for (std::size_t i = 0; i < results.buffers.size(); ++i)
    arguments_.buffers[node.buffers + i] = results.buffers[i];
  backward_[number] = std::move(results.backward);
}

std::vector<std::optional<Tensor>> GraphProgram::backward(
    const std::vector<std::optional<Tensor>>& output_gradients) {
  for (std::size_t i = 0; i < output_gradients.size(); ++i) {
    if (!output_gradients[i]) continue;
    const nn::GraphOutput& output = graph_.outputs()[i];
    const Scope scope(*output_gradients[i]->builder, output.name + "/backward");
    add(gradients_[output.value.node], from_output(*output_gradients[i]));
  }
  for (std::size_t i = graph_.nodes().size(); i-- > 0;) run_back(i);
  return weight_gradients_;
}

void GraphProgram::run_back(std::size_t number) {
  const nn::Node& node = graph_.nodes()[number];
  if (!learns_[number] || !gradients_[number]) return;
  Tensor incoming = *gradients_[number];
  const Scope scope(*incoming.builder, node.name + "/backward");
  if (arguments_.bf16 && stored_[number]) incoming = float32(convert(incoming, Type::kBFloat16));
  const LayerGradients gradients = backward_[number](incoming);
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (learns_[node.inputs[i].node]) add(gradients_[node.inputs[i].node], gradients.inputs[i]);
  if (node.weight != nn::kNoParameter) add(weight_gradients_[node.weight], gradients.weight);
  if (node.bias != nn::kNoParameter) add(weight_gradients_[node.bias], gradients.bias);
}

}  // namespace millrace::trainer::hlo

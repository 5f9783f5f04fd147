#include "trainer/nn/summary.h"

#include <fmt/format.h>

#include <set>

namespace millrace::trainer::nn {
namespace {

// A shared parameter counts for the first layer that uses it.
std::size_t own_parameters(const Graph& graph, const Node& node, std::set<std::size_t>& seen) {
  std::size_t count = 0;
  for (const std::size_t index : {node.weight, node.bias}) {
    if (index == kNoParameter || !seen.insert(index).second) continue;
    count += graph.parameters().entries()[index].size;
  }
  return count;
}

std::string row(std::string_view name, std::string_view kind, std::string_view shape,
                std::size_t parameters, std::int64_t operations, std::int64_t values) {
  return fmt::format("{:<28} {:<20} {:<18} {:>12} {:>15} {:>12}\n", name, kind, shape, parameters,
                     operations, values);
}

}  // namespace

// A weight is used once for every output position of its layer; for a transposed convolution once
// for every input position. Attention has two products of all tokens with all tokens.
std::int64_t multiply_adds(const Graph& graph, const Node& node) {
  if (std::holds_alternative<Attention>(node.layer))
    return 2 * node.shape[0] * node.shape[1] * node.shape[1];
  const bool products = std::holds_alternative<Conv2d>(node.layer) ||
                        std::holds_alternative<ConvTranspose2d>(node.layer) ||
                        std::holds_alternative<Linear>(node.layer);
  if (!products) return 0;
  const bool transposed = std::holds_alternative<ConvTranspose2d>(node.layer);
  const Shape& places = transposed ? graph.node(node.inputs[0]).shape : node.shape;
  const auto weights = num_values(graph.parameters().entries()[node.weight].shape);
  return weights * (num_values(places) / places[0]);
}

std::vector<LayerSummary> summarise(const Graph& graph) {
  std::vector<LayerSummary> layers;
  std::set<std::size_t> seen;
  for (const Node& node : graph.nodes()) {
    layers.push_back({node.name, std::string(layer_name(node.layer)), node.shape,
                      own_parameters(graph, node, seen), multiply_adds(graph, node),
                      num_values(node.shape)});
  }
  return layers;
}

std::string summary_text(const Graph& graph) {
  std::string text = fmt::format("{:<28} {:<20} {:<18} {:>12} {:>15} {:>12}\n", "layer", "kind",
                                 "shape", "parameters", "multiply-adds", "values");
  LayerSummary total;
  for (const LayerSummary& layer : summarise(graph)) {
    text += row(layer.name, layer.kind, shape_text(layer.shape), layer.parameters,
                layer.multiply_adds, layer.values);
    total.parameters += layer.parameters;
    total.multiply_adds += layer.multiply_adds;
    total.values += layer.values;
  }
  return text + row("total", "", "", total.parameters, total.multiply_adds, total.values);
}

}  // namespace millrace::trainer::nn

#include "trainer/nn/tie.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "io/base/error.h"

namespace millrace::trainer::nn {
namespace {

std::size_t node_named(const Graph& graph, const std::string& name) {
  const auto found = std::ranges::find(graph.nodes(), name, &Node::name);
  if (found == graph.nodes().end() || found->weight == kNoParameter) {
    throw Error(ErrorCode::kInvalidArgument, "the model has no layer " + name + " with weights");
  }
  return static_cast<std::size_t>(found - graph.nodes().begin());
}

void check_tie(const Graph& graph, const Node& owner, const Node& other) {
  const Shape& has = graph.parameters().entries()[owner.weight].shape;
  const Shape& wanted = graph.parameters().entries()[other.weight].shape;
  if (owner.layer.index() == other.layer.index() && has == wanted) return;
  throw Error(ErrorCode::kInvalidArgument, "cannot tie " + std::string(layer_name(owner.layer)) +
                                               " " + owner.name + " of " + shape_text(has) +
                                               " to " + std::string(layer_name(other.layer)) + " " +
                                               other.name + " of " + shape_text(wanted));
}

/// Which parameter replaces which.
using Replacements = std::map<std::size_t, std::size_t>;

Replacements replacements_for(const Node& owner, const Node& other) {
  Replacements by;
  if (other.weight != owner.weight) by[other.weight] = owner.weight;
  const bool biases = owner.bias != kNoParameter && other.bias != kNoParameter;
  if (biases && other.bias != owner.bias) by[other.bias] = owner.bias;
  return by;
}

}  // namespace

// A layer whose parameter an earlier layer has is tied to that layer. The last layer may be one of
// them: then its parameters are not the table's first. A single number is no head.
void Graph::name_shared() {
  std::set<std::size_t> owned;
  for (const Node& node : nodes_) {
    if (node.weight != kNoParameter && parameters_.entries()[node.weight].size > 1)
      parameters_.set_head(node.name);
    for (const auto& [index, part] : {std::pair(node.weight, "weight"), {node.bias, "bias"}}) {
      if (index == kNoParameter || owned.insert(index).second) continue;
      parameters_.add_alias(index, parameter_name(node, part));
    }
  }
}

Graph tie_weights(const Graph& graph, const Tie& tie) {
  // The first layer's gradient becomes ready last, so the sum must be in its place.
  const auto [first, second] =
      std::minmax({node_named(graph, tie.layer), node_named(graph, tie.to)});
  const Node& owner = graph.nodes()[first];
  check_tie(graph, owner, graph.nodes()[second]);
  const Replacements replaced = replacements_for(owner, graph.nodes()[second]);

  Graph tied = graph;
  tied.parameters_ = {};
  tied.init_.clear();
  std::map<std::size_t, std::size_t> places{{kNoParameter, kNoParameter}};
  for (std::size_t i = 0; i < graph.init_.size(); ++i) {
    if (replaced.contains(i)) continue;
    const Parameter& entry = graph.parameters().entries()[i];
    places[i] = tied.parameters_.add(entry.name, entry.shape, entry.decay);
    tied.parameters_.set_grid(places[i], entry.grid_height, entry.grid_width);
    if (entry.bounds) tied.parameters_.set_bounds(places[i], *entry.bounds);
    tied.init_.push_back(graph.init_[i]);
  }
  for (const auto& [from, to] : replaced) places[from] = places.at(to);
  for (Node& node : tied.nodes_) {
    node.weight = places.at(node.weight);
    node.bias = places.at(node.bias);
  }
  tied.name_shared();
  return tied;
}

}  // namespace millrace::trainer::nn

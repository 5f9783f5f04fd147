// Tied weights in a graph that is already built; in a builder, GraphBuilder::weights_of() ties.
//
//   const Graph tied = tie_weights(build_model("unet", {}), {.layer = "b.conv", .to = "a.conv"});
#pragma once

#include <string>

#include "trainer/nn/graph.h"

namespace millrace::trainer::nn {

/// Two layers, by name, that are to share their weights.
struct Tie {
  std::string layer;
  std::string to;
};

/// `graph` with both layers on one set of weights, that of the layer that comes first; a bias is
/// shared where both have one. What goes is an alias of what stays. Throws: InvalidArgument for an
/// unknown layer, and where kinds of layers or shapes differ.
Graph tie_weights(const Graph& graph, const Tie& tie);

}  // namespace millrace::trainer::nn

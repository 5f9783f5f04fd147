// Tied weights in a built graph; in a builder, GraphBuilder::weights_of() ties.
//
//   const Graph tied = tie_weights(build_model("unet", {}), {.layer = "b.conv", .to = "a.conv"});
#pragma once

#include <string>

#include "trainer/nn/graph.h"

namespace millrace::trainer::nn {

/// Two layers, by name, to share weights.
struct Tie {
  std::string layer;
  std::string to;
};

/// `graph` with both layers using the weights of the one that comes first; a bias is shared if both
/// have one. The other layer's parameters become aliases. Throws: InvalidArgument for an unknown
/// layer or one without weights, and for different kinds of layers or shapes.
Graph tie_weights(const Graph& graph, const Tie& tie);

}  // namespace millrace::trainer::nn

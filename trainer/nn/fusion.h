// Fusion: which neighbouring layers one pass over memory computes.
//
// conv2d + relu, linear + relu, batch_norm + relu, batch_norm + add + relu, add + relu: the value
// between them is used by nobody else, so it is never stored.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "trainer/nn/graph.h"

namespace millrace::trainer::nn {

/// Layers that run as one: `head`, then perhaps an addition, then perhaps a ReLU.
struct Group {
  std::size_t head = 0;           ///< node index
  std::optional<Value> residual;  ///< what is added to a batch_norm's output
  bool relu = false;
  std::size_t result = 0;  ///< the node whose value comes out
};

/// Every node once, except inputs, in an order in which every group follows what it reads.
std::vector<Group> fuse(const Graph& graph);

}  // namespace millrace::trainer::nn

// Fusion: which neighbouring layers are computed in one pass over memory.
//
// conv2d + relu, linear + relu, batch_norm + relu, batch_norm + add + relu, add + relu: the value
// between them has no other use, so it is never stored.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "trainer/nn/graph.h"

namespace millrace::trainer::nn {

/// Layers that run as one: `head`, then optionally an addition, then optionally a ReLU.
struct Group {
  std::size_t head = 0;           ///< node index
  std::optional<Value> residual;  ///< what is added to a batch_norm's output
  bool relu = false;
  std::size_t result = 0;  ///< the node whose value the group computes
};

/// Every node once, except inputs, in an order in which every group follows those that it reads.
std::vector<Group> fuse(const Graph& graph);

}  // namespace millrace::trainer::nn

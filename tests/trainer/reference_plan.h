// A graph's plan in float64 and plain loops: the layers' formulas, and nothing else.
#pragma once

#include <memory>
#include <span>

#include "trainer/nn/graph.h"
#include "trainer/nn/plan.h"

namespace millrace::testing {

/// As nn::PlanMemory, in float64.
struct ReferenceMemory {
  std::span<const double> parameters;
  std::span<double> gradients;
  std::span<double> buffers;
};

/// Has the layers of LeNet and the ResNets. Throws: Unsupported, naming the layer, for others.
std::unique_ptr<trainer::nn::Plan> compile_reference(const trainer::nn::Graph& graph,
                                                     const trainer::nn::PlanOptions& options,
                                                     const ReferenceMemory& memory);

}  // namespace millrace::testing

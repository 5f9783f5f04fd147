// The limit that train_step prints: a model's convolutions and matrix products as bare primitives.
#pragma once

#include <cstdint>

#include "trainer/nn/graph.h"

namespace millrace::bench {

/// Seconds for the conv2d and linear layers of one step: forward, backward data and backward
/// weights, in the layouts that oneDNN prefers, each the best of several runs.
double convolution_seconds(const trainer::nn::Graph& graph, std::int64_t batch, bool half);

}  // namespace millrace::bench

// The limit that train_step prints: a model's convolutions and products as bare primitives.
#pragma once

#include <cstdint>

#include "trainer/nn/graph.h"

namespace millrace::bench {

/// Seconds that one step's conv2d and linear layers take alone: forward, backward to the data and
/// to the weights, in the layouts that oneDNN likes best, each the best of several runs.
double convolution_seconds(const trainer::nn::Graph& graph, std::int64_t batch, bool half);

}  // namespace millrace::bench

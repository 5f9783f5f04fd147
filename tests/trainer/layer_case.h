// LayerCase: one layer of a model, to be tested alone.
//
// graph_of() returns a graph in which the layer's inputs are parameters: the output of a linear
// layer without bias for the identity matrix is its transposed weights, and their gradient is the
// gradient of the layer's input, both exactly, in float32 and in bf16.
#pragma once

#include <string>
#include <vector>

#include "trainer/nn/graph.h"

namespace millrace::trainer {

struct LayerCase {
  /// One; or several that a plan runs in one pass: each reads the one before, and an addition that
  /// is not the first reads the last of `inputs` too.
  std::vector<nn::Layer> layers;
  std::vector<nn::Shape> inputs;
  /// Reads the model's input, which has another layout and needs no gradient.
  bool reads_image = false;
  /// Computes the model's output, which stays float32.
  bool makes_output = false;
};

/// "conv2d(channels=6 kernel=5,5 ... bias=1) relu() of 1x28x28": the same only for equal cases.
std::string describe(const LayerCase& taken);

/// Every layer of a model alone, and every group of layers that a plan runs in one pass.
std::vector<LayerCase> layers_of(const nn::Graph& graph);

/// Inputs are the parameters "x0.weight", "x1.weight", (values, batch), or the graph's input if the
/// case reads the image; the first layer is named "layer".
nn::Graph graph_of(const LayerCase& taken, std::int64_t batch_size);

}  // namespace millrace::trainer

// LayerCase: a model's layer taken out of it, so that it can be looked at alone.
//
// graph_of() gives a graph in which the layer's inputs are parameters: a linear layer without bias
// that reads the identity matrix hands out its weights, transposed, and their gradient is the
// gradient of the layer's input, each exactly, in float32 and in bf16.
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
  /// Reads the model's own input, which lies otherwise in memory and needs no gradient.
  bool reads_image = false;
  /// Makes the model's output, which stays float32.
  bool makes_output = false;
};

/// "conv2d(channels=6 kernel=5,5 ... bias=1) relu() of 1x28x28": the same for equal cases alone.
std::string describe(const LayerCase& taken);

/// Every layer of a model alone, and every group of layers that a plan runs in one pass.
std::vector<LayerCase> layers_of(const nn::Graph& graph);

/// Inputs are the parameters "x0.weight", "x1.weight", (values, batch), or the graph's input where
/// the case reads the image; the first layer is named "layer".
nn::Graph graph_of(const LayerCase& taken, std::int64_t batch_size);

}  // namespace millrace::trainer

// GraphProgram: a graph's forward and backward passes in StableHLO, layer by layer.
//
// Threads: as builder.h's.
#pragma once

#include <optional>
#include <vector>

#include "trainer/hlo/layer_program.h"

namespace millrace::trainer::hlo {

struct GraphArguments {
  std::vector<Tensor> weights;  ///< float32, one per parameter of the graph's table
  std::vector<Tensor> buffers;  ///< likewise
  std::vector<Tensor> inputs;   ///< (N, H, W, C) or (N, F), of any float type
  bool training = true;
  bool bf16 = false;
  std::optional<RandomKey> key = {};
};

class GraphProgram {
 public:
  /// Writes the forward pass. Throws: Unsupported, with its name, for a layer without StableHLO.
  GraphProgram(const nn::Graph& graph, GraphArguments arguments);

  /// Float32; images (N, C, H, W), as Plan::output().
  const std::vector<Tensor>& outputs() const { return outputs_; }
  /// After a pass in training.
  const std::vector<Tensor>& buffers() const { return arguments_.buffers; }
  /// Writes the backward pass: each parameter's gradient, float32; none where nothing reaches it.
  std::vector<std::optional<Tensor>> backward(
      const std::vector<std::optional<Tensor>>& output_gradients);

 private:
  void run(std::size_t number);
  LayerArguments arguments_of(std::size_t number) const;
  void run_back(std::size_t number);

  const nn::Graph& graph_;
  GraphArguments arguments_;
  std::vector<Tensor> values_;
  std::vector<bool> learns_;  // nodes with a parameter at or before them
  std::vector<bool> stored_;  // nodes whose value bf16 programs round
  std::vector<std::function<LayerGradients(const Tensor&)>> backward_;
  std::vector<Tensor> outputs_;
  std::vector<std::optional<Tensor>> gradients_;         // of values
  std::vector<std::optional<Tensor>> weight_gradients_;  // of parameters
};

}  // namespace millrace::trainer::hlo

// A layer in StableHLO: its forward pass, and its backward pass as a function of the output's
// gradient.
//
//   LayerResults relu(const nn::Relu&, const LayerArguments& at) {
//     const Tensor y = max(at.inputs[0], 0.0);
//     return {.output = y, .backward = [=](const Tensor& dy) {
//       return LayerGradients{.inputs = {select(compare(y, Order::kGreater, 0.0), dy, 0.0)}};
//     }};
//   }
//
// Images are (N, H, W, C), features (N, F); weights have PyTorch's shapes. Values between layers
// are float32, or bf16 in a bf16 program; what a layer returns is rounded to that by the caller,
// where the CPU's plan rounds it. Gradients go in and out as float32.
//
// To add a layer's: a file in layers/ with its function, a line in layers.h.
//
// Threads: as builder.h's.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "trainer/hlo/operations.h"
#include "trainer/nn/graph.h"

namespace millrace::trainer::hlo {

/// Keys a step's random choices: nn::BatchKey as an argument.
struct RandomKey {
  Tensor seed;    ///< ui64, without dimensions
  Tensor epoch;   ///< likewise: RngKey::epoch
  Tensor index;   ///< likewise: of the batch's first slot
  Tensor stride;  ///< likewise: from one slot's index to the next
};

struct LayerArguments {
  const nn::Node& node;
  std::size_t number = 0;  ///< of the node in its graph: the stream of its random choices
  std::vector<Tensor> inputs;
  std::optional<Tensor> weight = {};  ///< float32, as its bias
  std::optional<Tensor> bias = {};
  std::vector<Tensor> buffers = {};  ///< batch norm's three
  bool training = true;
  bool bf16 = false;
  std::vector<bool> wants_gradient = {};  ///< of each input; of others none need be computed
  std::optional<RandomKey> key = {};      ///< in training

  Builder& builder() const { return *inputs.at(0).builder; }
  /// As an operand of matrix work: rounded to bf16 in a bf16 program.
  Tensor operand(const Tensor& x) const {
    return convert(x, bf16 ? Type::kBFloat16 : Type::kFloat32);
  }
};

/// Float32, or none.
struct LayerGradients {
  std::vector<std::optional<Tensor>> inputs;
  std::optional<Tensor> weight = {};
  std::optional<Tensor> bias = {};
};

struct LayerResults {
  Tensor output;
  std::vector<Tensor> buffers = {};  ///< what replaces them; empty: they stay
  /// Called at most once, with the output's gradient, float32.
  std::function<LayerGradients(const Tensor&)> backward;
};

}  // namespace millrace::trainer::hlo

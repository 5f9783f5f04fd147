// Network: a graph with its flat buffers and a plan, for tests of the nn room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/loss/loss.h"
#include "trainer/nn/plan.h"

namespace millrace::trainer {

class Network {
 public:
  Network(nn::Graph graph, const nn::PlanOptions& options, std::uint64_t seed = 1);

  const nn::Graph& graph() const { return graph_; }
  nn::Plan& plan() { return *plan_; }
  std::span<float> parameters() { return parameters_; }
  std::span<float> gradients() { return gradients_; }
  std::span<float> buffers() { return buffers_; }
  /// One parameter's values, or its gradient's.
  std::span<float> parameter(const std::string& name);
  std::span<float> gradient(const std::string& name);

  /// Runs forward with float32 inputs; image inputs are (N, H, W, C).
  nn::OutputView forward(std::vector<std::vector<float>> inputs, nn::Mode mode = nn::Mode::kTrain);
  /// Sets the output's gradient and runs backward.
  void backward(std::span<const float> output_gradient);

 private:
  nn::Graph graph_;
  std::vector<float> parameters_, gradients_, buffers_;
  std::vector<std::vector<float>> inputs_;  // backward() reads them again
  std::unique_ptr<nn::Plan> plan_;
};

/// `count` keyed normal numbers.
std::vector<float> random_values(std::size_t count, std::uint64_t seed);
/// |a - b| / |b|, Euclidean.
double relative_error(std::span<const float> a, std::span<const float> b);

}  // namespace millrace::trainer

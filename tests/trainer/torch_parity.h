// TorchParity: compares a model with PyTorch's, from the same weights on the same batch: one step
// in detail, and some steps of training.
//
// Near a kink of a ReLU or a tie of a max-pool the last bit decides, and a deep net has thousands.
// In float32 images and steps are chosen so that the fixed limit holds; in bf16 the limit of a
// single step is a multiple of the error of PyTorch's own bf16 against its float64.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/trainer/nn_support.h"
#include "trainer/models/models.h"

namespace millrace::trainer {

struct ParitySetup {
  std::string model;
  ModelOptions options;
  std::int64_t batch = 4;
  float smoothing = 0;
  /// Of the images. With some seeds an activation is so near a kink that float32 takes the other
  /// side; with those a single step cannot be compared.
  std::uint64_t seed = 4;
  /// Of training: a few show errors that one step passes to the next.
  int steps = 5;
  /// Of the steps: SGD, momentum 0.9. Small for deep nets: from start values large steps double a
  /// rounding error every step, in PyTorch too.
  float lr = 0.002F;
};

class TorchParity {
 public:
  /// PyTorch computes all that is compared.
  explicit TorchParity(const ParitySetup& setup);

  /// Expects one step's outputs, loss, gradients, running statistics and evaluation within the
  /// limits.
  void compare_step(nn::Precision precision);
  /// Expects each step's loss, and the final weights and running statistics.
  void compare_training(nn::Precision precision);

 private:
  /// One output of the model with its loss and target.
  struct Head {
    std::string name;
    LossChoice loss;
    std::vector<float> target;  ///< empty: the labels
  };

  void make_heads();
  void write_question() const;
  void ask_pytorch() const;
  Network make(nn::Precision precision) const;
  float evaluate_losses(Network& network) const;
  void compare_outputs(Network& network, const std::string& prefix) const;
  void compare_each_gradient(Network& network) const;
  /// Within the fixed limit.
  void near(const std::string& what, std::span<const float> ours) const;
  void near_in_one_step(const std::string& what, std::span<const float> ours) const;
  void expect_within(const std::string& what, std::span<const float> ours, double limit) const;
  std::vector<float> read(const std::string& file) const;

  ParitySetup setup_;
  std::vector<float> images_;
  std::vector<std::int64_t> labels_;
  std::vector<Head> heads_;
  testing::TempDir folder_;
  bool half_ = false;
};

}  // namespace millrace::trainer

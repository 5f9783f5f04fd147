// GradientSum: the array that an op's backward pass starts from: the sum of the gradient's parts,
// masked by the op's ReLU if it has one.
#pragma once

#include <vector>

#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/lowering.h"

namespace millrace::trainer::ops {

class GradientSum {
 public:
  GradientSum() = default;
  /// `relu_output` is null for an op that ends in no ReLU.
  GradientSum(Lowering& lowering, std::vector<Gradient> parts, const Tensor& relu_output = {});

  const Tensor& tensor() const { return sum_; }
  /// Whether another op reads it later.
  bool shared() const { return shared_; }
  /// The gradient of the op's input, of the same layout: in the sum's place if no other op reads it
  /// later. The op leaves it rounded.
  Tensor in_place(Lowering& lowering, nn::Value input) const;
  /// Adds the sum, if there is anything to add or to mask.
  void add_to(Works& works) const;

 private:
  void run() const;

  std::vector<Gradient> parts_;
  Tensor relu_output_;
  Tensor sum_;
  bool shared_ = false;
  Storage storage_ = Storage::kFloat32;
};

}  // namespace millrace::trainer::ops

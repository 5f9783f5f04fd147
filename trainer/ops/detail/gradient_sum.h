// GradientSum: the one array that an op's way back starts from: the sum of the gradient's parts,
// where the op's ReLU let something through.
#pragma once

#include <vector>

#include "trainer/ops/detail/lowering.h"

namespace millrace::trainer::ops {

class GradientSum {
 public:
  GradientSum() = default;
  /// `relu_output` is null for an op that ends in no ReLU.
  GradientSum(Lowering& lowering, std::vector<Gradient> parts, const Tensor& relu_output = {});

  const Tensor& tensor() const { return sum_; }
  /// Whether someone else reads it after this op.
  bool shared() const { return shared_; }
  void run() const;

 private:
  std::vector<Gradient> parts_;
  Tensor relu_output_;
  Tensor sum_;
  bool shared_ = false;
};

}  // namespace millrace::trainer::ops

// Muon: steps of orthogonalised momentum for matrices, SGD with Nesterov's momentum for the rest.
//
// A filter bank of (O, I, H, W) is a matrix of O rows. buf = momentum * buf + g; the direction is
// g + momentum * buf with Nesterov, else buf. Newton-Schulz steps of it, divided by its Frobenius
// norm (and transposed if it has more rows than columns),
//   X <- a X + (b A + c A A) X, A = X X',
// bring all singular values near 1. w <- (1 - lr * decay) w - lr * sqrt(max(1, rows / columns)) X;
// `normalise` first scales w to the norm sqrt(rows). Computed in float32, where the reference
// implementation rounds X to bfloat16. Source: Jordan and others, "Muon: an optimizer for hidden
// layers in neural networks" (2024); `normalise` as in airbench94_muon.
//
// Threads: as a value.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trainer/update_rule.h"

namespace millrace::trainer {

struct Muon {
  std::optional<double> lr = {};  ///< of the matrices. Default: 0.02.
  float momentum = 0.95F;
  bool nesterov = true;
  int steps = 5;                                                  ///< of Newton-Schulz
  std::vector<float> coefficients = {3.4445F, -4.775F, 2.0315F};  ///< a, b, c
  bool normalise = false;
  /// Beginnings of names, or patterns, of the matrices. Empty: all parameters of two dimensions and
  /// more, but those of the model's last layer.
  std::vector<std::string> matrices = {};
  std::optional<double> sgd_lr = {};  ///< of all other parameters. Default: lr.
  float sgd_momentum = 0.9F;
  /// Of matrices decoupled from the gradient, of the others added to it.
  float weight_decay = 0.0F;
  std::vector<ParameterGroup> groups = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  /// Throws: InvalidArgument unless there are three coefficients, and for an empty name.
  void check() const;
  std::unique_ptr<UpdateRule> make() const;
};

}  // namespace millrace::trainer

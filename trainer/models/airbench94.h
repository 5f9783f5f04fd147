// A small network for 32x32 pictures that learns CIFAR-10 in few epochs: a frozen whitening
// convolution, three groups of two 3x3 convolutions with GELU, and a linear head. Source: Jordan,
// "94% on CIFAR-10 in 3.29 seconds on a single GPU" (2024). Threads: as a value.
//
// The head's start values and outputs are those of the source with the factor 1 / features in its
// weights: its learning rate is the source's divided by the square of that. What the source freezes
// (whiten.weight and the norms' weights) a run freezes by groups of rate 0.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/models/models.h"

namespace millrace::trainer::models {

struct Airbench94 {
  std::vector<std::int64_t> channels = {64, 256, 256};  ///< of the three groups
  int whitening_samples = 0;                            ///< nn::Conv2d::init_samples

  static const ComponentName kName;
  void fields(FieldList& field);
  /// Throws: InvalidArgument unless there are three.
  void check() const;
  std::unique_ptr<Architecture> make() const;
};

}  // namespace millrace::trainer::models

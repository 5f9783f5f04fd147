// Residual networks. Source: He, Zhang, Ren, Sun, "Deep residual learning for image recognition"
// (2015); Xie and others, "Aggregated residual transformations for deep neural networks" (2017);
// Zagoruyko, Komodakis, "Wide residual networks" (2016). Names and the stride's place as in
// torchvision. Threads: as values.
#pragma once

#include <memory>

#include "trainer/models/models.h"

namespace millrace::trainer {

/// A ResNet's first layers: 7x7 stride 2 and a max-pool (ImageNet), or only 3x3 stride 1 (CIFAR).
enum class Stem { kImageNet, k3x3 };
const ValueType& value_type(const Stem& stem);

namespace models {

struct ResNet18 {
  Stem stem = Stem::kImageNet;
  float stochastic_depth = 0.0F;  ///< of the last block; the first has none
  bool zero_init_residual = false;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

struct ResNet34 {
  Stem stem = Stem::kImageNet;
  float stochastic_depth = 0.0F;  ///< of the last block; the first has none
  bool zero_init_residual = false;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

struct ResNet50 {
  Stem stem = Stem::kImageNet;
  float stochastic_depth = 0.0F;  ///< of the last block; the first has none
  bool zero_init_residual = false;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

/// Of 32 groups of 4 channels in the first stage.
struct ResNeXt50 {
  Stem stem = Stem::kImageNet;
  float stochastic_depth = 0.0F;  ///< of the last block; the first has none
  bool zero_init_residual = false;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

struct WideResNet50 {
  Stem stem = Stem::kImageNet;
  float stochastic_depth = 0.0F;  ///< of the last block; the first has none
  bool zero_init_residual = false;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Architecture> make() const;
};

}  // namespace models
}  // namespace millrace::trainer

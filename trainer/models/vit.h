// Vision transformer. Source: Dosovitskiy and others, "An Image is Worth 16x16 Words" (2020);
// ViT-S: Touvron and others, "Training data-efficient image transformers" (2021). Names, shapes and
// numbers are torchvision's, start values DeiT's: weights and positions of deviation 0.02, biases
// 0. Weights of images of another size are loaded with their positions resized. Threads: as values.
#pragma once

#include <memory>

#include "trainer/models/models.h"

namespace millrace::trainer::models {

/// What both sizes are made of.
struct VitShape {
  int patch = 16;   ///< pixels, height and width; images are whole patches
  int width = 384;  ///< of a token; a block's hidden layer has four times as many
  int depth = 12;   ///< blocks
  int heads = 6;    ///< which share a token's width equally
  float dropout = 0.0F;
  float stochastic_depth = 0.0F;  ///< of the last block; the first has none

  void fields(FieldList& field);
};

struct VitS16 {
  VitShape shape = {};

  static const ComponentName kName;
  void fields(FieldList& field) { shape.fields(field); }
  std::unique_ptr<Architecture> make() const;
};

struct VitB16 {
  VitShape shape = {.width = 768, .heads = 12};

  static const ComponentName kName;
  void fields(FieldList& field) { shape.fields(field); }
  std::unique_ptr<Architecture> make() const;
};

}  // namespace millrace::trainer::models

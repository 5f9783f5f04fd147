// ImageOptions: from encoded images to what a model sees: size, augmentation, normalisation.
//
//   none        resized to size x size
//   crop-flip   padded by size / 8, cropped to size x size at random, flipped by chance (CIFAR)
//   rrc-flip    random resized crop, flipped by chance (ImageNet); evaluation resizes the shorter
//               side to 8/7 of size and crops the middle
//
// Threads: as a value.
#pragma once

#include <string>
#include <vector>

#include "decode/transforms.h"
#include "pipeline/fields.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct ImageOptions {
  /// Height and width; 0: the model's own.
  int size = 0;
  /// 3 or 1; 0: the model's own.
  int channels = 0;
  std::string augment = "none";
  /// Per channel, or one for all; empty: ImageNet's for colour, 0.5 for grey.
  std::vector<float> mean = {};
  std::vector<float> std = {};

  /// --size --channels --augment --mean --std.
  void declare(CLI::App& app);
  /// Throws: InvalidArgument.
  void check() const;

  decode::Normalize normalize() const;
  std::vector<decode::Transform> train_transforms() const;
  std::vector<decode::Transform> eval_transforms() const;
};

}  // namespace millrace::tools

// ImageOptions: how encoded images become a model's input: size, augmentation, normalisation.
//
//   none        resized to size
//   flip        the same, flipped at random
//   crop-flip   padded by an eighth of the shorter side, randomly cropped to size, flipped at
//               random (CIFAR)
//   rrc-flip    random resized crop, flipped at random (ImageNet); evaluation resizes to 8/7 of
//               size (a square one: the shorter side) and crops the middle
//
// Evaluation of masks and depths uses the whole picture, resized. If a model needs sides of a
// certain multiple, the picture is centred in a canvas of the next larger one.
//
// Threads: a value type.
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
  decode::Extent size = 0;
  /// 3 or 1; 0: the model's own.
  int channels = 0;
  std::string augment = "none";
  /// Per channel, or one value for all; empty: ImageNet's for colour, 0.5 for grey.
  std::vector<float> mean = {};
  std::vector<float> std = {};

  /// The model's sides must be multiples of this. This and the next one are not options: the model
  /// and its task set them.
  int multiple_of = 1;
  /// Evaluation uses the whole picture, since its results refer to positions in it.
  bool whole = false;

  /// --size --channels --augment --mean --std.
  void declare(CLI::App& app);
  /// Throws: InvalidArgument.
  void check() const;

  bool has_size() const { return size.height > 0; }
  /// The model's input size: `size` plus padding.
  decode::Extent canvas() const;
  decode::Normalize normalize() const;
  std::vector<decode::Transform> train_transforms() const;
  std::vector<decode::Transform> eval_transforms() const;

 private:
  std::vector<decode::Transform> finished(std::vector<decode::Transform> geometry) const;
};

}  // namespace millrace::tools

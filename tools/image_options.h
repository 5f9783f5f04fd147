// ImageOptions: from encoded images to what a model sees: size, augmentation, normalisation.
//
//   none        resized to size
//   flip        the same, flipped by chance
//   crop-flip   padded by an eighth of the shorter side, cropped to size at random, flipped by
//               chance (CIFAR)
//   rrc-flip    random resized crop, flipped by chance (ImageNet); evaluation resizes to 8/7 of
//               size (a square one: the shorter side) and crops the middle
//
// Evaluation of masks and depths sees the whole picture, resized. Where a model wants sides of a
// certain multiple, the picture stands in the middle of a canvas of the next one.
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
  decode::Extent size = 0;
  /// 3 or 1; 0: the model's own.
  int channels = 0;
  std::string augment = "none";
  /// Per channel, or one for all; empty: ImageNet's for colour, 0.5 for grey.
  std::vector<float> mean = {};
  std::vector<float> std = {};

  /// What the model's sides must be multiples of. This and what follows: no options, but settled by
  /// the model and its task.
  int multiple_of = 1;
  /// Evaluation sees the whole picture: its results have their places in it.
  bool whole = false;

  /// --size --channels --augment --mean --std.
  void declare(CLI::App& app);
  /// Throws: InvalidArgument.
  void check() const;

  bool has_size() const { return size.height > 0; }
  /// What the model sees: size, padded.
  decode::Extent canvas() const;
  decode::Normalize normalize() const;
  std::vector<decode::Transform> train_transforms() const;
  std::vector<decode::Transform> eval_transforms() const;

 private:
  std::vector<decode::Transform> finished(std::vector<decode::Transform> geometry) const;
};

}  // namespace millrace::tools

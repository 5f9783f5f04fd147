// ImageOptions: how encoded images become a model's input: size, augmentation, normalisation.
//
// Training and evaluation show pictures at one scale, which `fit` decides:
//
//   cover     resized, in proportion, until they just cover size (a square one: the shorter side);
//             what is too much on the longer side is cropped away
//   squeeze   both sides resized to size, out of proportion
//   none      as stored; windows of size are taken of them
//
// `augment` decides what training makes of them:
//
//   none        the middle, cropped to size
//   flip        the same, flipped at random
//   crop-flip   padded by an eighth of size's shorter side, randomly cropped to size, flipped at
//               random (CIFAR)
//   rrc-flip    random resized crop, flipped at random (ImageNet)
//
// Evaluation crops the middle; with rrc-flip, whose windows are mostly parts of a picture, from one
// resized to 8/7 of size, or of what `eval_resize` says.
//
// Masks and depths are predicted for the whole picture, which therefore is squeezed. If a model
// needs sides of a certain multiple, the picture is centred in a canvas of the next larger one.
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
  /// "cover", "squeeze" or "none"; empty: settle() decides.
  std::string fit = {};
  /// Evaluation resizes the shorter side to this before it crops the middle, the longer one in
  /// proportion; 0: size, with rrc-flip 8/7 of it.
  int eval_resize = 0;
  /// Per channel, or one value for all; empty: ImageNet's for colour, 0.5 for grey.
  std::vector<float> mean = {};
  std::vector<float> std = {};

  /// The model's sides must be multiples of this. This and the next one are not options: the model
  /// and its task set them.
  int multiple_of = 1;
  /// Evaluation uses the whole picture, since its results refer to positions in it.
  bool whole = false;

  /// --size --channels --augment --fit --eval-resize --mean --std.
  void declare(CLI::App& app);
  /// Sets `fit`, if it is empty: squeeze for the whole picture, else cover.
  void settle();
  /// Throws: InvalidArgument.
  void check() const;
  /// Sets `fit` to how a checkpoint was evaluated that does not say it. Requires: whole is set.
  void settle_as_before();

  bool has_size() const { return size.height > 0; }
  /// The model's input size: `size` plus padding.
  decode::Extent canvas() const;
  decode::Normalize normalize() const;
  std::vector<decode::Transform> train_transforms() const;
  std::vector<decode::Transform> eval_transforms() const;

 private:
  decode::Extent eval_extent() const;
  std::vector<decode::Transform> fitted(const decode::Extent& to) const;
  std::vector<decode::Transform> finished(std::vector<decode::Transform> geometry) const;
};

}  // namespace millrace::tools

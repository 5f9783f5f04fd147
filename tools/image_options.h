// ImageOptions: how encoded images become a model's input: size, augmentation, normalisation.
//
// Training and evaluation show pictures at one scale, which `fit` decides:
//
//   cover     resized, in proportion, until they just cover size (a square one: the shorter side);
//             what is too much on the longer side is cropped away
//   contain   resized, in proportion, until they just fit into size, and centred; what is left over
//             of it is padding
//   squeeze   both sides resized to size, out of proportion
//   none      as stored; windows of size are taken of them
//
// `augment` is a list of transforms (decode/transforms/) that training adds, as calls:
//
//   rcrop(padding=4), hflip           a window of size of the padded picture, mirrored (CIFAR)
//   rrc, hflip, jitter(0.4, 0.4)      a random region, resized; mirrored; other colours (ImageNet)
//
// A transform whose size is not given has `size`; where none of them crops, the middle is taken.
// none, flip (hflip), crop-flip (rcrop padded by an eighth of the shorter side, hflip) and rrc-flip
// (rrc, hflip) are names of lists; a checkpoint records these lists by their names.
//
// Evaluation crops the middle; with rrc, whose windows are mostly parts of a picture, from one
// resized to 8/7 of size, or of what `eval_resize` says.
//
// Evaluation may show larger pictures than training (`eval_size`): objects in training's windows
// are enlarged, so that they have one apparent size in both (Touvron and others, "Fixing the
// train-test resolution discrepancy", 2019).
//
// Masks and depths are predicted for the whole picture, which therefore is contained or squeezed.
// If a model needs sides of a certain multiple, the picture is centred in a canvas of the next
// larger one. Nothing that is padded, for either reason, counts in loss and measures: masks of
// classes have the ignored label there, other masks and depths NaN. Windows of rcrop are taken of
// the contained picture, those of rrc of the stored one.
//
// Threads: a value type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "decode/codec.h"
#include "decode/extent.h"
#include "decode/interpolation.h"
#include "decode/transforms.h"
#include "decode/transforms/normalize.h"
#include "pipeline/fields.h"
#include "trainer/hlo/program.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct ImageOptions {
  /// Height and width; 0: the model's own.
  decode::Extent size = {};
  /// 3 or 1; 0: the model's own.
  int channels = 0;
  /// Calls, or the name of a list.
  std::string augment = "none";
  /// "cover", "contain", "squeeze" or "none"; empty: settle() decides.
  std::string fit = {};
  /// How pictures are resized where `augment` does not say; kRandom is refused.
  decode::Interpolation interpolation = decode::Interpolation::kBilinear;
  /// Height and width in evaluation; 0: size.
  decode::Extent eval_size = {};
  /// Evaluation resizes the shorter side to this before it crops the middle, the longer one in
  /// proportion; 0: its size, with rrc-flip 8/7 of it.
  int eval_resize = 0;
  /// Per channel, or one value for all; empty: ImageNet's for colour, 0.5 for grey.
  std::vector<float> mean = {};
  std::vector<float> std = {};

  /// The model's sides must be multiples of this. This and the next one are not options: the model
  /// and its task set them.
  int multiple_of = 1;
  /// Evaluation uses the whole picture, since its results refer to positions in it.
  bool whole = false;

  /// --size --channels.
  void declare_shape(CLI::App& app);
  /// --val-size, of a run that trains.
  void declare_val_size(CLI::App& app);
  /// --augment --fit --interpolation --eval-resize --mean --std.
  void declare_reading(CLI::App& app);
  /// Sets `fit`, if it is empty: contain for the whole picture, else cover; and writes `augment` as
  /// it is recorded: a list by its name, or with every parameter. Requires: has_size().
  void settle();
  /// Throws: InvalidArgument, which calls eval_size by `eval_size_option`.
  void check(std::string_view eval_size_option = "--val-size") const;
  /// Sets `fit` to how a checkpoint was evaluated that does not say it. Requires: whole is set.
  void settle_as_before();

  bool has_size() const { return size.height > 0; }
  bool has_eval_size() const { return eval_size.height > 0 && eval_size != size; }
  /// What evaluation sees, as options of one size, without augmentation; unchanged if it has no
  /// size of its own. Requires: settled options.
  ImageOptions for_evaluation() const;
  /// Of a model trained with these: `side` in place of the evaluation's size, which is resized in
  /// the same proportion before it is cropped.
  void evaluate_at(const decode::Extent& side);
  /// The model's input size: `size` plus padding.
  decode::Extent canvas() const;
  /// Where evaluation shows a picture of this size in the canvas. Requires: settled options.
  decode::Box content(const decode::Extent& stored) const;
  decode::Normalize normalize() const;
  /// The same, of each channel, for a model that is given the pictures' bytes. Requires: channels
  /// are known.
  trainer::hlo::Normalisation of_bytes() const;
  /// Geometry, then changes of levels, then Normalize.
  std::vector<decode::Transform> train_transforms() const;
  std::vector<decode::Transform> eval_transforms() const;
  /// These, for a field of this type: bytes are not normalised.
  std::vector<decode::Transform> transforms(bool training, decode::DType dtype) const;

 private:
  std::vector<decode::Transform> augmentations() const;
  void check_augmentations() const;
  decode::Extent eval_extent() const;
  std::vector<decode::Transform> fitted(const decode::Extent& to) const;
  std::vector<decode::Transform> finished(std::vector<decode::Transform> geometry,
                                          std::vector<decode::Transform> levels = {}) const;
};

}  // namespace millrace::tools

// TaskChoice: what a model is trained to tell of an image: which fields of a sample are the
// targets, which losses compare them with the outputs, and what is measured.
//
//   classify       `cls`, a class number; cross-entropy; top1, top5
//   multilabel     `json`, {"labels": [0, 1, ...]}; BCE with logits; auroc
//   segment        `mask.png` beside the image, a class a pixel; cross-entropy; miou, the IoU of
//                  each class, pixel_accuracy
//   mask           `mask.png`, set or not; BCE with logits; iou
//   depth          `depth.png`; berhu; rmse
//   mask-depth, segment-depth   both, a loss each, weighted
//
// Threads: as a value.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "decode/class_mask.h"
#include "pipeline/fields.h"
#include "tools/image_options.h"
#include "trainer/objective.h"

namespace CLI {
class App;
}

namespace millrace::tools {

/// A field of the size that an image has in its file: int64 (N, 2), height before width.
inline constexpr const char* kSizeField = "size";

struct TaskChoice {
  /// One of the above; empty: the model's own.
  std::string kind = {};
  /// multilabel: the key of the numbers in the sample's JSON.
  std::string label_key = "labels";
  float label_smoothing = 0.0F;
  /// Empty: bce, or ce for masks of classes.
  std::string mask_loss = {};
  std::string depth_loss = "berhu";
  /// Of the mask's loss and the depth's.
  std::vector<double> loss_weights = {1.0, 1.0};
  /// What the mask's pixels hold where it is set.
  int mask_value = 1;
  /// Suffixes of the members.
  std::string mask_field = "mask.png";
  std::string depth_field = "depth.png";
  /// segment: the number of pixels that are left out; -1: none.
  std::int64_t ignore_index = 255;
  std::vector<float> class_weights = {};
  /// segment: a file with a colour a line; what it says.
  std::string colour_table = {};
  std::vector<decode::ClassColour> colours = {};
  /// segment: of the classes, for what is printed; by the colour table, or whoever knows them.
  std::vector<std::string> names = {};

  void declare(CLI::App& app);
  /// unet: mask-depth; all others: classify. Reads the colour table. Throws: what reading throws.
  void settle(const std::string& model);
  /// Requires: settle(). Throws: InvalidArgument for options of another task, or a model that
  /// cannot do this one.
  void check(const std::string& model) const;

  bool has_class_mask() const { return kind.starts_with("segment"); }
  bool has_mask() const { return has_class_mask() || kind.starts_with("mask"); }
  bool has_depth() const { return kind.ends_with("depth"); }
  bool is_dense() const { return has_mask() || has_depth(); }
  /// Whether padding can be told from what is there: as pixels that are ignored.
  bool can_pad() const { return kind == "segment"; }
  /// Of the mask's output; 0 without a mask.
  std::int64_t mask_channels(std::int64_t classes) const;
  /// One more than the highest class of the colour table; 0 without.
  std::int64_t table_classes() const;
  /// A colour for each class: the table's first, or one made up.
  std::vector<decode::RgbColour> palette(std::int64_t classes) const;
  /// How masks of classes are read.
  decode::ClassMask class_mask(std::int64_t classes) const;

  /// What a sample's members become. `outputs`: classes or labels.
  std::vector<pipeline::FieldSpec> fields(const ImageOptions& images, std::int64_t outputs,
                                          decode::DType dtype, bool training) const;
  /// The image alone, as in evaluation, for samples without targets; of pictures its size, too.
  std::vector<pipeline::FieldSpec> inputs(const ImageOptions& images, decode::DType dtype) const;
  trainer::LossObjective objective(std::int64_t outputs) const;
  /// "10 classes", "10 labels", "mask and depth".
  std::string text(std::int64_t outputs) const;

  void to_json(nlohmann::ordered_json& json) const;
  void from_json(const nlohmann::ordered_json& json);
};

}  // namespace millrace::tools

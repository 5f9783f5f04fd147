// TaskChoice: what a model is trained to predict: which fields of a sample are the targets, which
// losses compare them with the outputs, and which metrics are computed.
//
//   classify       `cls`, a class number; cross-entropy; top1, top5
//   multilabel     `json`, {"labels": [0, 1, ...]}; BCE with logits; auroc
//   segment        `mask.png` next to the image, a class per pixel; cross-entropy; miou, the IoU of
//                  each class, pixel_accuracy
//   mask           `mask.png`, set or not; BCE with logits; iou
//   depth          `depth.png`; berhu; rmse
//   mask-depth, segment-depth   both, with a weighted loss each
//
// Threads: a value type.
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

/// A field with the image's size as stored. Shape: int64 (N, 2), height before width.
inline constexpr const char* kSizeField = "size";

struct TaskChoice {
  /// One of the above; empty: the model's default.
  std::string kind = {};
  /// multilabel: the key of the numbers in the sample's JSON.
  std::string label_key = "labels";
  float label_smoothing = 0.0F;
  /// Empty: bce, or ce for masks of classes.
  std::string mask_loss = {};
  std::string depth_loss = "berhu";
  /// For the mask's loss and the depth's.
  std::vector<double> loss_weights = {1.0, 1.0};
  /// The pixel value of a set mask.
  int mask_value = 1;
  /// Suffixes of the fields.
  std::string mask_field = "mask.png";
  std::string depth_field = "depth.png";
  /// segment: the label of excluded pixels; -1: none.
  std::int64_t ignore_index = 255;
  std::vector<float> class_weights = {};
  /// segment: a file with one colour per line, and its contents.
  std::string colour_table = {};
  std::vector<decode::ClassColour> colours = {};
  /// segment, multilabel: class names for printing, from the colour table or the caller.
  std::vector<std::string> names = {};

  void declare(CLI::App& app);
  /// Default: mask-depth for unet, else classify. Reads the table. Throws: as read_mask_colours().
  void settle(const std::string& model);
  /// Requires: settle(). Throws: InvalidArgument for options of another task, or a model that does
  /// not support this one.
  void check(const std::string& model) const;

  bool has_class_mask() const { return kind.starts_with("segment"); }
  bool has_mask() const { return has_class_mask() || kind.starts_with("mask"); }
  bool has_depth() const { return kind.ends_with("depth"); }
  bool is_dense() const { return has_mask() || has_depth(); }
  /// Whether padding can be distinguished from content, as ignored pixels.
  bool can_pad() const { return kind == "segment"; }
  /// Channels of the mask's output; 0 without a mask.
  std::int64_t mask_channels(std::int64_t classes) const;
  /// One more than the highest class of the colour table; 0 without a table.
  std::int64_t table_classes() const;
  /// A colour for each class: its first one in the table, or a generated one.
  std::vector<decode::RgbColour> palette(std::int64_t classes) const;
  /// How masks of classes are read.
  decode::ClassMask class_mask(std::int64_t classes) const;

  /// The fields of a batch. `outputs`: number of classes or labels.
  std::vector<pipeline::FieldSpec> fields(const ImageOptions& images, std::int64_t outputs,
                                          decode::DType dtype, bool training) const;
  /// Only the image, as in evaluation, for samples without targets; for dense tasks also its size.
  std::vector<pipeline::FieldSpec> inputs(const ImageOptions& images, decode::DType dtype) const;
  trainer::LossObjective objective(std::int64_t outputs) const;
  /// "10 classes", "10 labels", "mask and depth".
  std::string text(std::int64_t outputs) const;

  void to_json(nlohmann::ordered_json& json) const;
  void from_json(const nlohmann::ordered_json& json);
};

}  // namespace millrace::tools

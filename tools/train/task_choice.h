// TaskChoice: what a model is trained to tell of an image: which fields of a sample are the
// targets, which losses compare them with the outputs, and what is measured.
//
//   classify    `cls`, a class number; cross-entropy; top1, top5
//   multilabel  `json`, {"labels": [0, 1, ...]}; BCE with logits; auroc
//   mask-depth  `mask.png` and `depth.png` beside the image; a loss each, weighted; iou, rmse
//
// Threads: as a value.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "pipeline/fields.h"
#include "tools/image_options.h"
#include "trainer/objective.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct TaskChoice {
  /// "classify", "multilabel", "mask-depth"; empty: the model's own.
  std::string kind = {};
  /// multilabel: the key of the numbers in the sample's JSON.
  std::string label_key = "labels";
  float label_smoothing = 0.0F;
  std::string mask_loss = "bce";
  std::string depth_loss = "berhu";
  /// Of the mask's loss and the depth's.
  std::vector<double> loss_weights = {1.0, 1.0};
  /// What the mask's pixels hold where it is set.
  int mask_value = 1;

  void declare(CLI::App& app);
  /// unet: mask-depth; all others: classify.
  void settle(const std::string& model);
  /// Requires: settle(). Throws: InvalidArgument for options of another task, or a model that
  /// cannot do this one.
  void check(const std::string& model) const;

  bool is_dense() const { return kind == "mask-depth"; }
  /// What a sample's members become. `outputs`: classes or labels.
  std::vector<pipeline::FieldSpec> fields(const ImageOptions& images, std::int64_t outputs,
                                          decode::DType dtype, bool training) const;
  /// The image alone, as in evaluation: for samples without targets.
  std::vector<pipeline::FieldSpec> inputs(const ImageOptions& images, decode::DType dtype) const;
  trainer::LossObjective objective() const;
  /// "10 classes", "10 labels", "mask and depth".
  std::string text(std::int64_t outputs) const;

  void to_json(nlohmann::ordered_json& json) const;
  void from_json(const nlohmann::ordered_json& json);
};

}  // namespace millrace::tools

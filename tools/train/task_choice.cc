#include "tools/train/task_choice.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

/// The geometry alone: what all images of a sample share.
std::vector<decode::Transform> without_normalize(std::vector<decode::Transform> transforms) {
  std::erase_if(transforms,
                [](const auto& one) { return std::holds_alternative<decode::Normalize>(one); });
  return transforms;
}

pipeline::PairedImagesField paired_fields(const ImageOptions& images, decode::DType dtype,
                                          bool training, int mask_value) {
  // A pixel's value / 255 is what is normalised: this makes of it the value / mask_value.
  const decode::Normalize mask{.mean = {0.0F}, .std = {static_cast<float>(mask_value) / 255.0F}};
  return {
      .geometry =
          without_normalize(training ? images.train_transforms() : images.eval_transforms()),
      .members = {{.transforms = {images.normalize()}, .channels = images.channels, .dtype = dtype},
                  {.name = "mask",
                   .suffixes = "mask.png",
                   .transforms = {mask},
                   .channels = 1,
                   .interpolation = decode::Interpolation::kNearest,
                   .palette_indices = true},
                  {.name = "depth", .suffixes = "depth.png", .channels = 1}}};
}

}  // namespace

void TaskChoice::declare(CLI::App& app) {
  app.option_defaults()->group("Task");
  app.add_option("--task", kind, "What the model is to tell [unet: mask-depth, others: classify]")
      ->transform(
          one_of({"classify", "multilabel", "mask-depth"}, {{"classification", "classify"}}));
  app.add_option("--label-smoothing", label_smoothing, "classify: what all classes share")
      ->transform(real_number(0, 1));
  app.add_option("--label-key", label_key, "multilabel: the key of the 0s and 1s in `json`");
  app.add_option("--mask-loss", mask_loss, "mask-depth: of the mask")
      ->transform(one_of({"bce", "dice"}));
  app.add_option("--depth-loss", depth_loss, "mask-depth: of the depth")
      ->transform(one_of({"berhu", "l1", "mse"}));
  app.add_option("--loss-weights", loss_weights, "mask-depth: of the mask's loss and the depth's")
      ->delimiter(',')
      ->expected(2)
      ->transform(above_zero());
  app.add_option("--mask-value", mask_value,
                 "mask-depth: what mask.png holds where the mask is set: 1, or 255")
      ->transform(whole_number(1, 255));
}

void TaskChoice::settle(const std::string& model) {
  if (kind.empty()) kind = model == "unet" ? "mask-depth" : "classify";
}

void TaskChoice::check(const std::string& model) const {
  require((model == "unet") == is_dense(), "model " + model + " cannot do --task " + kind);
  require(label_smoothing == 0.0F || kind == "classify",
          "--label-smoothing is for --task classify");
}

std::vector<pipeline::FieldSpec> TaskChoice::fields(const ImageOptions& images,
                                                    std::int64_t outputs, decode::DType dtype,
                                                    bool training) const {
  if (is_dense()) return {paired_fields(images, dtype, training, mask_value)};
  const pipeline::ImageField image{
      .transforms = training ? images.train_transforms() : images.eval_transforms(),
      .channels = images.channels,
      .dtype = dtype};
  if (kind == "multilabel")
    return {image, pipeline::FloatsField{.size = outputs, .json_key = label_key}};
  return {image, pipeline::LabelField{.classes = outputs}};
}

std::vector<pipeline::FieldSpec> TaskChoice::inputs(const ImageOptions& images,
                                                    decode::DType dtype) const {
  return {pipeline::ImageField{
      .transforms = images.eval_transforms(), .channels = images.channels, .dtype = dtype}};
}

trainer::LossObjective TaskChoice::objective() const {
  using trainer::Metric;
  if (is_dense())
    return trainer::LossObjective({.heads = {{.output = 0,
                                              .name = "mask",
                                              .loss = mask_loss,
                                              .target = "mask",
                                              .weight = loss_weights[0],
                                              .metrics = {Metric::kIou}},
                                             {.output = 1,
                                              .name = "depth",
                                              .loss = depth_loss,
                                              .target = "depth",
                                              .weight = loss_weights[1],
                                              .metrics = {Metric::kRmse}}}});
  if (kind == "multilabel")
    return trainer::LossObjective(
        {.heads = {{.loss = "bce", .target = "target", .metrics = {Metric::kAuroc}}}});
  return trainer::LossObjective({.heads = {{.options = {.label_smoothing = label_smoothing}}}});
}

std::string TaskChoice::text(std::int64_t outputs) const {
  if (is_dense()) return "mask and depth";
  return std::to_string(outputs) + (kind == "multilabel" ? " labels" : " classes");
}

void TaskChoice::to_json(nlohmann::ordered_json& json) const {
  json["task"] = kind;
  json["label_key"] = label_key;
  json["mask_loss"] = mask_loss;
  json["depth_loss"] = depth_loss;
  json["loss_weights"] = loss_weights;
  json["mask_value"] = mask_value;
}

void TaskChoice::from_json(const nlohmann::ordered_json& json) {
  json.at("task").get_to(kind);
  json.at("label_key").get_to(label_key);
  json.at("mask_loss").get_to(mask_loss);
  json.at("depth_loss").get_to(depth_loss);
  json.at("loss_weights").get_to(loss_weights);
  json.at("mask_value").get_to(mask_value);
}

}  // namespace millrace::tools

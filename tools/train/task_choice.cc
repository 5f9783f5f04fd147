#include "tools/train/task_choice.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>

#include "decode/codec.h"
#include "decode/image.h"
#include "io/base/error.h"
#include "tools/option_settings.h"
#include "tools/train/mask_colours.h"
#include "tools/values.h"
#include "tools/view/visible.h"

namespace millrace::tools {
namespace {

constexpr std::int64_t kUsualIgnored = 255;

/// Only the geometry, which all images of a sample share.
std::vector<decode::Transform> without_normalize(std::vector<decode::Transform> transforms) {
  std::erase_if(transforms,
                [](const auto& one) { return std::holds_alternative<decode::Normalize>(one); });
  return transforms;
}

pipeline::ImageField mask_field_of(const TaskChoice& task, std::int64_t classes) {
  pipeline::ImageField mask{.name = "mask",
                            .suffixes = task.mask_field,
                            .channels = 1,
                            .interpolation = decode::Interpolation::kNearest};
  if (task.has_class_mask()) {
    mask.dtype = decode::DType::kInt64;
    mask.classes = task.class_mask(classes);
    return mask;
  }
  // Normalize gets a pixel's value / 255: this turns it into value / mask_value.
  mask.transforms = {
      decode::Normalize{.mean = {0.0F}, .std = {static_cast<float>(task.mask_value) / 255.0F}}};
  mask.palette_indices = true;
  return mask;
}

pipeline::PairedImagesField paired_fields(const TaskChoice& task, const ImageOptions& images,
                                          std::int64_t classes, decode::DType dtype,
                                          bool training) {
  pipeline::PairedImagesField paired{
      .geometry =
          without_normalize(training ? images.train_transforms() : images.eval_transforms()),
      .members = {
          {.transforms = {images.normalize()}, .channels = images.channels, .dtype = dtype}}};
  if (task.has_mask()) paired.members.push_back(mask_field_of(task, classes));
  if (task.has_depth())
    paired.members.push_back({.name = "depth", .suffixes = task.depth_field, .channels = 1});
  return paired;
}

pipeline::FunctionField size_field() {
  return {
      .name = kSizeField,
      .output = {.dtype = decode::DType::kInt64, .shape = {2}},
      .decode = [suffixes = decode::standard_codecs()->suffixes()](
                    const wds::Sample& sample, const decode::SampleId&, std::span<std::byte> slot) {
        const wds::Field* image = sample.find_any(suffixes);
        if (image == nullptr) throw Error(ErrorCode::kCorrupt, "the sample has no image");
        // Whether a truncated picture is accepted is decided by the image's own field.
        const auto size = decode::image_size(image->data, {.tolerate_truncated = true});
        const std::array<std::int64_t, 2> values = {size.height, size.width};
        std::memcpy(slot.data(), values.data(), sizeof values);
      }};
}

/// Makes names usable as column names and tags.
std::vector<std::string> plain_names(std::vector<std::string> names) {
  const auto plain = [](char c) {
    return c == ',' || c == '"' || static_cast<unsigned char>(c) < ' ' ? '_' : c;
  };
  for (std::string& name : names) std::ranges::transform(name, name.begin(), plain);
  return names;
}

trainer::Head mask_head(const TaskChoice& task, std::int64_t classes) {
  using trainer::Metric;
  trainer::Head head{.name = "mask",
                     .loss = task.mask_loss,
                     .target = "mask",
                     .weight = task.loss_weights[0],
                     .metrics = {Metric::kIou}};
  if (!task.has_class_mask()) return head;
  head.loss = "pixel_cross_entropy";
  head.options = {.label_smoothing = task.label_smoothing,
                  .ignore_label = task.ignore_index,
                  .dice = task.mask_loss == "ce+dice" ? 1.0F : 0.0F};
  head.metrics = {Metric::kMiou, Metric::kPixelAccuracy};
  head.classes = classes;
  head.class_names = plain_names(task.names);
  head.class_weights = task.class_weights;
  return head;
}

trainer::LossObjective dense_objective(const TaskChoice& task, std::int64_t classes) {
  std::vector<trainer::Head> heads;
  if (task.has_mask()) heads.push_back(mask_head(task, classes));
  if (task.has_depth())
    heads.push_back({.output = heads.size(),
                     .name = "depth",
                     .loss = task.depth_loss,
                     .target = "depth",
                     .weight = task.loss_weights[1],
                     .metrics = {trainer::Metric::kRmse}});
  // A single loss needs no weight.
  if (heads.size() == 1) heads.front().weight = 1.0;
  return trainer::LossObjective({.heads = std::move(heads)});
}

bool is_class_loss(const std::string& loss) { return loss.starts_with("ce"); }

}  // namespace

void TaskChoice::declare(CLI::App& app) {
  app.option_defaults()->group("Task");
  app.add_option(
         "--task", kind,
         "What the model predicts; segment: one class per pixel [unet: mask-depth, or segment "
         "with --classes; others: classify]")
      ->transform(one_of(
          {"classify", "multilabel", "segment", "mask", "depth", "mask-depth", "segment-depth"},
          {{"classification", "classify"}, {"segmentation", "segment"}}));
  app.add_option("--label-smoothing", label_smoothing,
                 "classify, segment: the share of the target that is spread over all classes")
      ->transform(real_number(0, 1));
  app.add_option("--label-key", label_key, "multilabel: the key of the 0s and 1s in `json`");
  app.add_option("--mask-loss", mask_loss,
                 "Loss of the mask: bce or dice; segment: ce, or ce+dice [bce, ce]")
      ->transform(one_of({"bce", "dice", "ce", "ce+dice"}, {{"cross-entropy", "ce"}}));
  app.add_option("--depth-loss", depth_loss, "Loss of the depth")
      ->transform(one_of({"berhu", "l1", "mse"}));
  app.add_option("--loss-weights", loss_weights,
                 "mask-depth, segment-depth: weights of the mask's loss and the depth's")
      ->delimiter(',')
      ->expected(2)
      ->transform(above_zero());
  app.add_option("--mask-value", mask_value, "mask, mask-depth: the value of set pixels: 1 or 255")
      ->transform(whole_number(1, 255));
  app.add_option("--mask-field", mask_field, "The mask's suffix in a sample")->type_name("SUFFIX");
  app.add_option("--depth-field", depth_field, "The depth's suffix in a sample")
      ->type_name("SUFFIX");
  app.add_option("--ignore-index", ignore_index,
                 "segment: the value that loss and measures ignore; -1: none")
      ->transform(whole_number(-1, 65535));
  app.add_option("--class-weights", class_weights, "segment: the weight of each class in the loss")
      ->delimiter(',')
      ->transform(real_number(0));
  app.add_option("--mask-colors", colour_table,
                 "segment: masks are colour images; FILE has one colour per line: R G B NAME, or "
                 "NAME,R,G,B. Colours of one name are one class; void and ignore are ignored; "
                 "camvid: CamVid's colours as its 11 classes")
      ->type_name("FILE")
      ->check(names_contents());
}

void TaskChoice::settle(const std::string& model) {
  if (kind.empty() && model == "unet") kind = colour_table.empty() ? "mask-depth" : "segment";
  if (kind.empty()) kind = "classify";
  if (mask_loss.empty()) mask_loss = has_class_mask() ? "ce" : "bce";
  if (colour_table.empty() || !colours.empty()) return;
  MaskColours table = read_mask_colours(colour_table, ignore_index);
  colours = std::move(table.colours);
  names = std::move(table.names);
}

void TaskChoice::check(const std::string& model) const {
  require((model == "unet") == is_dense(), "model " + model + " cannot do --task " + kind +
                                               (is_dense() ? ": --model unet can" : ""));
  require(label_smoothing == 0.0F || kind == "classify" || has_class_mask(),
          "--label-smoothing is for --task classify and segment");
  require(!has_mask() || is_class_loss(mask_loss) == has_class_mask(),
          "--mask-loss " + mask_loss + " is not for --task " + kind);
  require(colour_table.empty() || has_class_mask(), "--mask-colors is for --task segment");
  require(class_weights.empty() || has_class_mask(), "--class-weights is for --task segment");
}

std::int64_t TaskChoice::mask_channels(std::int64_t classes) const {
  return has_class_mask() ? classes : has_mask() ? 1 : 0;
}

std::int64_t TaskChoice::table_classes() const {
  std::int64_t classes = 0;
  for (const decode::ClassColour& colour : colours)
    if (colour.label != ignore_index) classes = std::max(classes, colour.label + 1);
  return classes;
}

std::vector<decode::RgbColour> TaskChoice::palette(std::int64_t classes) const {
  std::vector<decode::RgbColour> palette;
  for (std::int64_t label = 0; label < classes; ++label) {
    const auto listed = std::ranges::find(colours, label, &decode::ClassColour::label);
    palette.push_back(listed != colours.end() ? listed->rgb : class_colour(label));
  }
  return palette;
}

decode::ClassMask TaskChoice::class_mask(std::int64_t classes) const {
  require(classes <= kUsualIgnored || ignore_index != kUsualIgnored,
          "one of " + std::to_string(classes) +
              " classes has the ignored number: --ignore-index -1, or another");
  return {.ignore = ignore_index, .classes = classes, .colours = colours};
}

std::vector<pipeline::FieldSpec> TaskChoice::fields(const ImageOptions& images,
                                                    std::int64_t outputs, decode::DType dtype,
                                                    bool training) const {
  if (is_dense()) return {paired_fields(*this, images, outputs, dtype, training)};
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
  std::vector<pipeline::FieldSpec> fields = {pipeline::ImageField{
      .transforms = images.eval_transforms(), .channels = images.channels, .dtype = dtype}};
  if (is_dense()) fields.emplace_back(size_field());
  return fields;
}

trainer::LossObjective TaskChoice::objective(std::int64_t outputs) const {
  if (is_dense()) return dense_objective(*this, outputs);
  if (kind == "multilabel")
    return trainer::LossObjective(
        {.heads = {{.loss = "bce", .target = "target", .metrics = {trainer::Metric::kAuroc}}}});
  return trainer::LossObjective({.heads = {{.options = {.label_smoothing = label_smoothing}}}});
}

std::string TaskChoice::text(std::int64_t outputs) const {
  if (!is_dense()) return std::to_string(outputs) + (kind == "multilabel" ? " labels" : " classes");
  std::string text;
  if (has_mask()) text = has_class_mask() ? std::to_string(outputs) + " classes per pixel" : "mask";
  if (has_depth()) text += text.empty() ? "depth" : " and depth";
  return text;
}

void TaskChoice::to_json(nlohmann::ordered_json& json) const {
  json["task"] = kind;
  json["label_key"] = label_key;
  json["mask_loss"] = mask_loss;
  json["depth_loss"] = depth_loss;
  json["loss_weights"] = loss_weights;
  json["mask_value"] = mask_value;
  if (!is_dense() && !names.empty()) json["class_names"] = names;
  if (!is_dense()) return;
  json["mask_field"] = mask_field;
  json["depth_field"] = depth_field;
  if (!has_class_mask()) return;
  json["label_smoothing"] = label_smoothing;
  json["ignore_index"] = ignore_index;
  json["class_weights"] = class_weights;
  json["class_names"] = names;
  auto& table = json["mask_colors"] = nlohmann::ordered_json::array();
  for (const auto& [rgb, label] : colours) table.push_back({rgb[0], rgb[1], rgb[2], label});
}

void TaskChoice::from_json(const nlohmann::ordered_json& json) {
  json.at("task").get_to(kind);
  json.at("label_key").get_to(label_key);
  json.at("mask_loss").get_to(mask_loss);
  json.at("depth_loss").get_to(depth_loss);
  json.at("loss_weights").get_to(loss_weights);
  json.at("mask_value").get_to(mask_value);
  if (json.contains("mask_field")) json["mask_field"].get_to(mask_field);
  if (json.contains("depth_field")) json["depth_field"].get_to(depth_field);
  if (json.contains("class_names")) json["class_names"].get_to(names);
  if (!has_class_mask()) return;
  json.at("label_smoothing").get_to(label_smoothing);
  json.at("ignore_index").get_to(ignore_index);
  json.at("class_weights").get_to(class_weights);
  for (const auto& line : json.at("mask_colors"))
    colours.push_back({.rgb = {line.at(0), line.at(1), line.at(2)}, .label = line.at(3)});
}

}  // namespace millrace::tools

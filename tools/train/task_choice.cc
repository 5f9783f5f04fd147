#include "tools/train/task_choice.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "decode/codec.h"
#include "decode/image.h"
#include "decode/sample_id.h"
#include "decode/transforms/normalize.h"
#include "io/base/error.h"
#include "io/opener.h"
#include "tools/train/captions.h"
#include "tools/train/mask_colours.h"
#include "tools/train/saved_component.h"
#include "tools/view/visible.h"
#include "trainer/nn/token_embedding.h"
#include "trainer/retrieval_objective.h"

namespace millrace::tools {
namespace {

constexpr std::int64_t kUsualIgnored = 255;
/// Of padding, in masks that are set or not and in depths.
constexpr float kNoValue = std::numeric_limits<float>::quiet_NaN();

pipeline::ImageField mask_field_of(const TaskChoice& task, std::int64_t classes) {
  pipeline::ImageField mask{.name = "mask",
                            .suffixes = task.what().mask->field,
                            .channels = 1,
                            .interpolation = decode::Interpolation::kNearest};
  if (task.has_class_mask()) {
    mask.dtype = decode::DType::kInt64;
    mask.classes = task.class_mask(classes);
    return mask;
  }
  // Normalize gets a pixel's value / 255: this turns it into value / mask_value.
  mask.transforms = {decode::Normalize{
      .mean = {0.0F}, .std = {static_cast<float>(task.what().mask->set_value) / 255.0F}}};
  mask.palette_indices = true;
  mask.padding = kNoValue;
  return mask;
}

pipeline::PairedImagesField paired_fields(const TaskChoice& task, const ImageOptions& images,
                                          std::int64_t classes, decode::DType dtype,
                                          bool training) {
  const auto all = images.transforms(training, dtype);
  auto own = decode::of_kind(all, decode::TransformKind::kPixels);
  std::ranges::copy(decode::of_kind(all, decode::TransformKind::kScale), std::back_inserter(own));
  pipeline::PairedImagesField paired{
      .geometry = decode::of_kind(all, decode::TransformKind::kGeometry),
      .members = {{.transforms = own, .channels = images.channels, .dtype = dtype}}};
  if (task.has_mask()) paired.members.push_back(mask_field_of(task, classes));
  if (task.has_depth())
    paired.members.push_back({.name = "depth",
                              .suffixes = task.what().depth->field,
                              .channels = 1,
                              .padding = kNoValue,
                              .values = task.what().depth->values});
  return paired;
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
  const MaskTarget& mask = *task.what().mask;
  trainer::Head head{.name = "mask",
                     .loss = mask.loss,
                     .target = "mask",
                     .may_lack_targets = true,
                     .weight = mask.weight,
                     .metrics = {Metric::kIou}};
  if (!mask.has_classes) return head;
  head.metrics = {Metric::kMiou, Metric::kPixelAccuracy};
  head.classes = classes;
  head.class_names = plain_names(task.names);
  return head;
}

std::unique_ptr<trainer::Objective> objective_of(trainer::LossObjectiveOptions options) {
  return std::make_unique<trainer::LossObjective>(std::move(options));
}

std::unique_ptr<trainer::Objective> objective_of(trainer::Head head) {
  return objective_of({.heads = {std::move(head)}});
}

std::unique_ptr<trainer::Objective> dense_objective(const TaskChoice& task, std::int64_t classes) {
  std::vector<trainer::Head> heads;
  if (task.has_mask()) heads.push_back(mask_head(task, classes));
  if (const auto& depth = task.what().depth)
    heads.push_back({.output = heads.size(),
                     .name = "depth",
                     .loss = depth->loss,
                     .target = "depth",
                     .may_lack_targets = true,
                     .weight = depth->weight,
                     .metrics = {trainer::Metric::kRmse}});
  return objective_of({.heads = std::move(heads)});
}

/// A checkpoint from before texts were masked does not say that they are not.
nlohmann::ordered_json with_text_mask(nlohmann::ordered_json json) {
  nlohmann::ordered_json& task = json.at("task");
  if (task.is_object() && task.value("name", "") == tasks::Clip::kName.word &&
      !task.contains("text_mask"))
    task["text_mask"] = false;
  return json;
}

constexpr const char* kSampleField = "sample";

/// Which sample a slot is of, by its shard and key.
pipeline::FunctionField sample_field() {
  return {
      .name = kSampleField,
      .output = {.dtype = decode::DType::kInt64, .shape = {}},
      .decode = [](const wds::Sample& sample, const decode::SampleId&, std::span<std::byte> slot) {
        const std::uint64_t number = decode::sample_number(
            sample.key, decode::sample_number(sample.url ? *sample.url : std::string()));
        std::memcpy(slot.data(), &number, sizeof number);
      }};
}

}  // namespace

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

void TaskChoice::choose(const TaskKind& kind) {
  what_ = *kind.make();
  kind_ = kind;
}

void TaskChoice::settle() {
  read_colours();
  read_tokens();
}

void TaskChoice::read_tokens() {
  if (!what_.text || what_.text->tokenizer.empty() || what_.text->tokens) return;
  TextTarget& text = *what_.text;
  require(!io::is_network_url(text.tokenizer) && !io::is_stream_url(text.tokenizer),
          "a tokenizer is a file of this machine, not " + io::printable_url(text.tokenizer));
  text.tokens = decode::read_tokenizer(io::UrlOpener(), text.tokenizer);
  require(tokenizer_sha256_.empty() || tokenizer_sha256_ == text.tokens->sha256(),
          text.tokenizer + " is not the tokenizer that the run began with: its SHA-256 is " +
              text.tokens->sha256() + ", not " + tokenizer_sha256_);
  tokenizer_sha256_ = text.tokens->sha256();
  require(static_cast<std::size_t>(text.tower.length) > text.tokens->num_added(text.marks),
          "a text_length of " + std::to_string(text.tower.length) +
              " has no room for a token of a caption");
  for (const auto& mark : {text.marks.begin, text.marks.end})
    require(!mark || *mark < text.tokens->vocabulary(),
            text.tokenizer + " has no token " + std::to_string(mark.value_or(0)) +
                ", only those below " + std::to_string(text.tokens->vocabulary()));
  text.tower.vocabulary = text.tokens->vocabulary();
  text.tower.digits = trainer::nn::token_digits(text.tower.vocabulary);
}

void TaskChoice::read_colours() {
  if (!has_class_mask() || what_.mask->colors.empty() || !colours.empty()) return;
  MaskColours table = read_mask_colours(what_.mask->colors, what_.mask->ignore);
  colours = std::move(table.colours);
  names = std::move(table.names);
}

void TaskChoice::check(const std::string& model, bool dense_model) const {
  require(dense_model == is_dense(), "model " + model + " cannot do --task " + name() +
                                         (is_dense() ? ": --model unet can" : ""));
}

std::int64_t TaskChoice::mask_channels(std::int64_t classes) const {
  return has_class_mask() ? classes : has_mask() ? 1 : 0;
}

std::int64_t TaskChoice::table_classes() const {
  std::int64_t classes = 0;
  for (const decode::ClassColour& colour : colours)
    if (colour.label != what_.mask->ignore) classes = std::max(classes, colour.label + 1);
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
  const std::int64_t ignored = what_.mask->ignore;
  require(classes <= kUsualIgnored || ignored != kUsualIgnored,
          "one of " + std::to_string(classes) +
              " classes has the ignored number: --task.ignore-index -1, or another");
  return {.ignore = ignored, .classes = classes, .colours = colours};
}

std::vector<pipeline::FieldSpec> TaskChoice::fields(const ImageOptions& images,
                                                    std::int64_t outputs, decode::DType dtype,
                                                    bool training) const {
  if (is_dense()) return {paired_fields(*this, images, outputs, dtype, training)};
  const pipeline::ImageField image{.transforms = images.transforms(training, dtype),
                                   .channels = images.channels,
                                   .dtype = dtype};
  if (what_.has_labels())
    return {image, pipeline::FloatsField{.size = outputs, .json_key = what_.label_key}};
  if (what_.text)
    return {image, caption_field(*what_.text, dtype),
            same_caption_field(*what_.text, kSampleField)};
  if (what_.has_embeddings() && training) return {image, sample_field()};
  if (what_.has_embeddings()) return {image, pipeline::LabelField{.name = kSampleField}};
  return {image, pipeline::LabelField{.classes = outputs}};
}

std::vector<pipeline::FieldSpec> TaskChoice::inputs(const ImageOptions& images,
                                                    decode::DType dtype) const {
  std::vector<pipeline::FieldSpec> fields = {pipeline::ImageField{
      .transforms = images.transforms(false, dtype), .channels = images.channels, .dtype = dtype}};
  if (is_dense()) fields.emplace_back(size_field());
  if (what_.text) fields.emplace_back(caption_field(*what_.text, dtype));
  return fields;
}

std::unique_ptr<trainer::Objective> TaskChoice::objective(
    std::int64_t outputs, const pipeline::MixUpOptions& mixup) const {
  require(!mixup.is_on() || what_.has_class(),
          "--mixup and --cutmix mix labels of whole pictures: they are for --task classify");
  if (is_dense()) return dense_objective(*this, outputs);
  if (what_.has_labels())
    return objective_of(
        {.loss = what_.loss, .target = "target", .metrics = {trainer::Metric::kAuroc}});
  if (what_.text)
    return std::make_unique<trainer::RetrievalObjective>(
        trainer::LossObjectiveOptions{.inputs = {"image", kCaptionField},
                                      .heads = {{.loss = what_.loss, .target = kSampleField}}});
  if (what_.has_embeddings()) return objective_of({.loss = what_.loss, .target = kSampleField});
  return objective_of({.loss = what_.loss, .mixes = mixup.is_on()});
}

std::string TaskChoice::text(std::int64_t outputs) const {
  if (what_.has_embeddings())
    return std::to_string(outputs) + (what_.text ? " features of pictures and texts" : " features");
  if (!is_dense()) return std::to_string(outputs) + (what_.has_labels() ? " labels" : " classes");
  std::string text;
  if (has_mask()) text = has_class_mask() ? std::to_string(outputs) + " classes per pixel" : "mask";
  if (has_depth()) text += text.empty() ? "depth" : " and depth";
  return text;
}

void TaskChoice::to_json(nlohmann::ordered_json& json) const {
  json["task"] = component_json(*kind_);
  if (!tokenizer_sha256_.empty()) json["tokenizer_sha256"] = tokenizer_sha256_;
  if (!names.empty()) json["class_names"] = names;
  if (!has_class_mask()) return;
  auto& table = json["mask_colors"] = nlohmann::ordered_json::array();
  for (const auto& [rgb, label] : colours) table.push_back({rgb[0], rgb[1], rgb[2], label});
}

void TaskChoice::from_json(const nlohmann::ordered_json& json) {
  choose(TaskKind(saved_component(with_text_mask(json), "task", standard_tasks())));
  if (json.contains("tokenizer_sha256")) json["tokenizer_sha256"].get_to(tokenizer_sha256_);
  if (json.contains("class_names")) json["class_names"].get_to(names);
  if (!has_class_mask()) return;
  for (const auto& line : json.at("mask_colors"))
    colours.push_back({.rgb = {line.at(0), line.at(1), line.at(2)}, .label = line.at(3)});
  require(what_.mask->colors.empty() || !colours.empty(), "a table of colours without its colours");
}

}  // namespace millrace::tools

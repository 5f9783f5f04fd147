#include "tools/train/tasks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "trainer/nn/logit_scale.h"

namespace millrace::tools {
namespace {

using trainer::TargetKind;

/// Requires: the loss is one of the table's or a program's.
void check_loss(const trainer::LossChoice& loss, TargetKind wanted, const char* name) {
  if (loss.make()->target() == wanted) return;
  std::vector<std::string> fitting;
  for (const Component& one : trainer::standard_losses().all())
    if (trainer::LossChoice(one).make()->target() == wanted)
      fitting.emplace_back(one.type().name().word);
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} is one of {}, not {}", name, fmt::join(fitting, ", "),
                          loss.type().name().word));
}

void list_weights(FieldList& field, std::vector<double>& weights) {
  field("loss_weights", weights, {.min = 0, .open_min = true},
        "Weights of the mask's loss and the depth's");
}

std::unique_ptr<Task> with_weights(MaskTarget mask, DepthTarget depth,
                                   const std::vector<double>& weights) {
  require(weights.size() == 2, "loss_weights are two: the mask's and the depth's");
  mask.weight = weights[0];
  depth.weight = weights[1];
  return std::make_unique<Task>(Task{.mask = std::move(mask), .depth = std::move(depth)});
}

}  // namespace

const TableOf<Task>& standard_tasks() {
  static const TableOf<Task> table = TableOf<Task>("task")
                                         .add<tasks::Classify>()
                                         .add<tasks::Multilabel>()
                                         .add<tasks::Mask>()
                                         .add<tasks::Depth>()
                                         .add<tasks::MaskDepth>()
                                         .add<tasks::Segment>()
                                         .add<tasks::SegmentDepth>()
                                         .add<tasks::Contrast>()
                                         .add<tasks::Clip>();
  return table;
}

const ValueType& value_type(const ClassLoss& /*loss*/) {
  static const EnumType<ClassLoss> type({{"ce", ClassLoss::kCrossEntropy},
                                         {"bce", ClassLoss::kBinary},
                                         {"cross-entropy", ClassLoss::kCrossEntropy}});
  return type;
}

const ValueType& value_type(const PixelLoss& /*loss*/) {
  static const EnumType<PixelLoss> type({{"ce", PixelLoss::kCrossEntropy},
                                         {"ce+dice", PixelLoss::kCrossEntropyAndDice},
                                         {"cross-entropy", PixelLoss::kCrossEntropy}});
  return type;
}

namespace tasks {

const ComponentName Classify::kName = {"classify", "Classify", "A class per image"};
const ComponentName Multilabel::kName = {"multilabel", "Multilabel", "Several labels per image"};
const ComponentName Mask::kName = {"mask", "Mask",
                                   "Which pixels are set; iou is the mean of set and unset ones"};
const ComponentName Depth::kName = {"depth", "Depth", "A depth per pixel"};
const ComponentName MaskDepth::kName = {"mask-depth", "MaskDepth", "Mask and depth"};
const ComponentName Segment::kName = {"segment", "Segment", "A class per pixel"};
const ComponentName SegmentDepth::kName = {"segment-depth", "SegmentDepth",
                                           "A class and a depth per pixel"};
const ComponentName Contrast::kName = {"contrast", "Contrast",
                                       "Embeddings, alike for views of the same sample"};

const ComponentName Clip::kName = {"clip", "ClipTask",
                                   "Embeddings of pictures and their captions, alike for a pair"};

void Classify::fields(FieldList& field) {
  trainer::losses::list_label_smoothing(field, bce.label_smoothing);
  field("loss", loss, "Cross-entropy of the softmax, or binary cross-entropy of each class");
  bce.list_classes(field);
}

void Classify::check() const {
  require(loss == ClassLoss::kBinary || (!bce.threshold && !bce.sum_classes),
          "threshold and sum_classes are for loss=bce");
  bce.check();
}

std::unique_ptr<Task> Classify::make() const {
  if (loss == ClassLoss::kBinary) return std::make_unique<Task>(Task{.loss = bce});
  return std::make_unique<Task>(
      Task{.loss = trainer::losses::CrossEntropy{.label_smoothing = bce.label_smoothing}});
}

void Multilabel::fields(FieldList& field) {
  field("label_key", label_key, "The key of the 0s and 1s in `json`");
}

void Multilabel::check() const { require(!label_key.empty(), "label_key is a key in `json`"); }

std::unique_ptr<Task> Multilabel::make() const {
  return std::make_unique<Task>(Task{.loss = trainer::losses::Bce(), .label_key = label_key});
}

void MaskPart::list(FieldList& add) {
  add("mask_loss", loss, "Loss of the mask: bce, dice or another of values from 0 to 1");
  add("mask_value", value, {.min = 1, .max = 255}, "The value of set pixels: 1 or 255");
  add("mask_field", field, "The mask's suffix in a sample");
}

MaskTarget MaskPart::target() const {
  check_loss(loss, TargetKind::kShares, "mask_loss");
  return {.field = field, .loss = loss, .set_value = value};
}

void ClassMaskPart::list(FieldList& add) {
  add("mask_loss", loss, "Cross-entropy of the pixels, or Dice of the softmax beside it");
  cross_entropy.list_cross_entropy(add);
  add("colors", colors,
      "Masks are colour images; a file has one colour per line: R G B NAME, or NAME,R,G,B. "
      "Colours of one name are one class; void and ignore are ignored; camvid: CamVid's colours "
      "as its 11 classes");
  add("mask_field", field, "The mask's suffix in a sample");
}

MaskTarget ClassMaskPart::target() const {
  trainer::losses::PixelCrossEntropy own = cross_entropy;
  own.dice = loss == PixelLoss::kCrossEntropyAndDice ? 1.0F : 0.0F;
  return {.field = field,
          .loss = own,
          .has_classes = true,
          .ignore = own.ignore_index,
          .colors = colors};
}

void DepthPart::list(FieldList& add) {
  add("depth_loss", loss, "Loss of the depth: berhu, l1, mse or another of values");
  add("depth_field", field, "The depth's suffix in a sample");
  add("depth_one", values.one, {.min = 0, .max = 65535},
      "The level whose depth is 1; 0: the largest of its bits, 255 or 65535");
  add("depth_none", values.none, {.min = -1, .max = 65535},
      "The level of pixels without a depth; -1: each has one");
}

DepthTarget DepthPart::target() const {
  check_loss(loss, TargetKind::kValues, "depth_loss");
  return {.field = field, .loss = loss, .values = values};
}

std::unique_ptr<Task> Mask::make() const {
  return std::make_unique<Task>(Task{.mask = mask.target()});
}

std::unique_ptr<Task> Depth::make() const {
  return std::make_unique<Task>(Task{.depth = depth.target()});
}

void MaskDepth::fields(FieldList& field) {
  mask.list(field);
  depth.list(field);
  list_weights(field, loss_weights);
}

std::unique_ptr<Task> MaskDepth::make() const {
  return with_weights(mask.target(), depth.target(), loss_weights);
}

std::unique_ptr<Task> Segment::make() const {
  return std::make_unique<Task>(Task{.mask = mask.target()});
}

void SegmentDepth::fields(FieldList& field) {
  mask.list(field);
  depth.list(field);
  list_weights(field, loss_weights);
}

std::unique_ptr<Task> SegmentDepth::make() const {
  return with_weights(mask.target(), depth.target(), loss_weights);
}

void Contrast::fields(FieldList& field) {
  field("features", features, {.min = 2, .max = 65536}, "Of an embedding: the model's outputs");
  loss.fields(field);
}

std::unique_ptr<Task> Contrast::make() const {
  return std::make_unique<Task>(
      Task{.loss = loss,
           .features = features,
           .learned_temperature = loss.learned ? std::optional(loss.temperature) : std::nullopt});
}

void Clip::fields(FieldList& field) {
  constexpr std::int64_t kMostTokens = 4096;
  trainer::models::TextTower& tower = text.tower;
  field("features", tower.features, {.min = 2, .max = 65536},
        "Of an embedding: the image model's outputs, and the texts'");
  loss.fields(field);
  field("text_field", text.field, "The caption's suffix in a sample");
  field("text_key", text.key, "The caption's key in that field, if it is JSON");
  field("text_length", tower.length, {.min = 1, .max = kMostTokens, .unit = "tokens"},
        "Of a caption: the tokenizer's, or its UTF-8's bytes; what is longer is cut");
  field("text_width", tower.width, {.min = 1, .max = 65536}, "Features of a token");
  field("text_depth", tower.depth, {.min = 1, .max = 1024}, "Blocks of the texts' transformer");
  field("text_heads", tower.heads, {.min = 1}, "Heads of each of its attentions");
  field("text_mask", tower.masked, "Attention leaves out what is behind a caption");
  field("text_pool", tower.pool,
        "Whose features are a caption's: a class token's, or those of its last token, as CLIP's");
  field("text_causal", tower.causal,
        "A token attends to those before it alone, as CLIP's; with text_pool=end");
  field(
      "tokenizer", text.tokenizer,
      "Whose tokens a caption becomes: a tokenizer.json of byte pair encoding, or SentencePiece's "
      "*.model; empty: its bytes");
  field("text_begin", text.marks.begin, {.min = 0},
        "A token before each caption's, besides what the tokenizer adds, such as <s>'s number");
  field("text_end", text.marks.end, {.min = 0},
        "Likewise behind them, such as </s>'s: SentencePiece's files add none");
}

void Clip::check() const {
  require(!text.field.empty(), "text_field is a field of the samples, such as txt");
  require(text.tower.width % text.tower.heads == 0,
          fmt::format("a text_width of {} cannot be shared by {} heads", text.tower.width,
                      text.tower.heads));
  require(!text.tower.causal || text.tower.pool == trainer::models::TextPool::kEnd,
          "text_causal is for text_pool=end: a class token would see no other");
  require(!text.tokenizer.empty() || !(text.marks.begin || text.marks.end),
          "text_begin and text_end are tokens of a tokenizer");
  if (loss.learned)
    static_cast<void>(trainer::nn::LogitScale({.temperature = loss.temperature, .parts = 2}));
}

std::unique_ptr<Task> Clip::make() const {
  return std::make_unique<Task>(
      Task{.loss = loss,
           .features = text.tower.features,
           .learned_temperature = loss.learned ? std::optional(loss.temperature) : std::nullopt,
           .text = text});
}

}  // namespace tasks
}  // namespace millrace::tools

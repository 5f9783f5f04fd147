// Tasks: what a model is trained to predict, each a component: which fields of a sample are the
// targets, and which losses compare them with the outputs.
//
//   const TaskKind kind = tasks::Segment{.mask = {.loss = PixelLoss::kCrossEntropyAndDice}};
//   const Task task = *kind.make();                            // task.mask->has_classes
//
//   classify       `cls`, a class number; cross-entropy or BCE of each class; top1, top5
//   multilabel     `json`, {"labels": [0, 1, ...]}; BCE with logits; auroc
//   segment        `mask.png` next to the image, a class per pixel; cross-entropy; miou, the IoU of
//                  each class, pixel_accuracy
//   mask           `mask.png`, set or not; BCE with logits; iou
//   depth          `depth.png`; berhu; rmse
//   mask-depth, segment-depth   both, with a weighted loss each
//   contrast       none: which of a step's pictures are views of the same sample; in evaluation
//                  `cls`, which are of the same class; infonce; top1, top5
//   clip           `txt`, a caption: which of a step's captions is of which picture; clip; top1,
//                  top5, and in evaluation recalls of the whole set, both ways
//
// A parameter has one name in all tasks, so that a recipe's or a sweep's --task.mask-loss stays
// right when a depth is added to a mask. To add a task of these targets: a struct here, a line in
// the table.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/grey_values.h"
#include "decode/tokenizer.h"
#include "io/component/choice.h"
#include "trainer/loss/clip.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/info_nce.h"
#include "trainer/loss/pixel_cross_entropy.h"
#include "trainer/loss/value_losses.h"
#include "trainer/models/text_tower.h"

namespace millrace::tools {

/// A picture beside the image whose pixels are set or not, or have a class each.
struct MaskTarget {
  std::string field = "mask.png";  ///< its suffix in a sample
  trainer::LossChoice loss = trainer::losses::Bce();
  bool has_classes = false;
  int set_value = 1;          ///< of set pixels, where they have no classes
  std::int64_t ignore = 255;  ///< the class that does not count; -1: none
  std::string colors = {};    ///< a table of colours: a file, or "camvid"
  double weight = 1.0;        ///< of the loss
};

struct DepthTarget {
  std::string field = "depth.png";
  trainer::LossChoice loss = trainer::losses::BerHu();
  decode::GreyValues values = {};
  double weight = 1.0;
};

/// A caption beside the image, as a tokenizer's tokens, or as the UTF-8 bytes that the tower of
/// texts takes for tokens.
struct TextTarget {
  std::string field = "txt";   ///< its suffix in a sample
  std::string key = {};        ///< of JSON in that field; empty: the field is the text
  std::string tokenizer = {};  ///< a file of this machine; empty: bytes are tokens
  /// Of that file, with its numbers in `tower`: TaskChoice::settle() reads it.
  std::shared_ptr<const decode::Tokenizer> tokens = {};
  decode::TokenMarks marks = {};  ///< around its tokens
  trainer::models::TextTower tower = {.masked = true};
};

/// What a task says, whichever it is.
struct Task {
  /// Of the class, or the labels, of a sample; not used beside pictures.
  trainer::LossChoice loss = trainer::losses::CrossEntropy();
  std::string label_key = {};  ///< of several labels in `json`; empty: one class, `cls`
  std::int64_t features = 0;   ///< of embeddings, of views of samples; 0: there are targets
  std::optional<float> learned_temperature = {};  ///< with which embeddings' scale begins
  std::optional<MaskTarget> mask = {};
  std::optional<DepthTarget> depth = {};
  std::optional<TextTarget> text = {};  ///< which embeddings of pictures are compared with

  bool is_dense() const { return mask.has_value() || depth.has_value(); }
  bool has_class_mask() const { return mask.has_value() && mask->has_classes; }
  bool has_labels() const { return !label_key.empty(); }
  bool has_embeddings() const { return features > 0; }
  bool has_class() const { return !is_dense() && !has_labels() && !has_embeddings(); }
};

using TaskKind = Choice<Task>;

/// classify, multilabel, mask, depth, mask-depth, segment, segment-depth, contrast, clip.
const TableOf<Task>& standard_tasks();

/// Of a class per picture: cross-entropy of the softmax, or binary cross-entropy of each class.
enum class ClassLoss { kCrossEntropy, kBinary };
const ValueType& value_type(const ClassLoss& loss);

/// Cross-entropy, alone or with Dice beside it.
enum class PixelLoss { kCrossEntropy, kCrossEntropyAndDice };
const ValueType& value_type(const PixelLoss& loss);

namespace tasks {

struct Classify {
  ClassLoss loss = ClassLoss::kCrossEntropy;
  trainer::losses::ClassBce bce = {};  ///< its label_smoothing is cross-entropy's, too

  static const ComponentName kName;
  void fields(FieldList& field);
  /// Throws: InvalidArgument for what only binary cross-entropy has.
  void check() const;
  std::unique_ptr<Task> make() const;
};

struct Multilabel {
  std::string label_key = "labels";

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<Task> make() const;
};

/// What tasks with a mask of set pixels have in common.
struct MaskPart {
  trainer::LossChoice loss = trainer::losses::Bce();
  int value = 1;  ///< of set pixels
  std::string field = "mask.png";

  void list(FieldList& add);
  /// Throws: InvalidArgument for a loss of other targets.
  MaskTarget target() const;
};

/// What tasks with a mask of classes have in common.
struct ClassMaskPart {
  PixelLoss loss = PixelLoss::kCrossEntropy;
  trainer::losses::PixelCrossEntropy cross_entropy = {};  ///< but for `dice`, which is of `loss`
  std::string colors = {};
  std::string field = "mask.png";

  void list(FieldList& add);
  MaskTarget target() const;
};

struct DepthPart {
  trainer::LossChoice loss = trainer::losses::BerHu();
  std::string field = "depth.png";
  decode::GreyValues values = {};

  void list(FieldList& add);
  /// Throws: InvalidArgument for a loss of other targets.
  DepthTarget target() const;
};

struct Mask {
  MaskPart mask = {};

  static const ComponentName kName;
  void fields(FieldList& field) { mask.list(field); }
  void check() const { make(); }
  std::unique_ptr<Task> make() const;
};

struct Depth {
  DepthPart depth = {};

  static const ComponentName kName;
  void fields(FieldList& field) { depth.list(field); }
  void check() const { make(); }
  std::unique_ptr<Task> make() const;
};

struct MaskDepth {
  MaskPart mask = {};
  DepthPart depth = {};
  std::vector<double> loss_weights = {1.0, 1.0};  ///< of the mask's loss and the depth's

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const { make(); }
  std::unique_ptr<Task> make() const;
};

struct Segment {
  ClassMaskPart mask = {};

  static const ComponentName kName;
  void fields(FieldList& field) { mask.list(field); }
  std::unique_ptr<Task> make() const;
};

struct SegmentDepth {
  ClassMaskPart mask = {};
  DepthPart depth = {};
  std::vector<double> loss_weights = {1.0, 1.0};

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const { make(); }
  std::unique_ptr<Task> make() const;
};

struct Contrast {
  int features = 128;  ///< of an embedding: the model's outputs
  trainer::losses::InfoNce loss = {};

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Task> make() const;
};

struct Clip {
  TextTarget text = {};
  trainer::losses::Clip loss = {.learned = true};

  static const ComponentName kName;
  void fields(FieldList& field);
  /// Throws: InvalidArgument for heads that cannot share the width, and a temperature that cannot
  /// be learned.
  void check() const;
  std::unique_ptr<Task> make() const;
};

}  // namespace tasks
}  // namespace millrace::tools

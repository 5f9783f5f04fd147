// TaskChoice: the task of a run: what a component of tools/train/tasks.h says, with what was found
// out, and what follows: the fields of a batch, losses and measures.
//
// Threads: a value type.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "decode/class_mask.h"
#include "pipeline/fields.h"
#include "pipeline/mixup.h"
#include "tools/image_options.h"
#include "tools/train/tasks.h"
#include "trainer/objective.h"

namespace millrace::tools {

/// A field with the image's size as stored. Shape: int64 (N, 2), height before width.
inline constexpr const char* kSizeField = "size";
pipeline::FunctionField size_field();

struct TaskChoice {
  /// The contents of the table of colours.
  std::vector<decode::ClassColour> colours = {};
  /// segment, multilabel: class names for printing, from the colour table or the caller.
  std::vector<std::string> names = {};

  void choose(const TaskKind& kind);
  bool is_chosen() const { return kind_.has_value(); }
  /// Reads the table of colours, or the tokenizer. Requires: is_chosen(). Throws: as
  /// read_mask_colours() and read_tokenizer(); InvalidArgument for a tokenizer that is not the
  /// checkpoint's.
  void settle();
  /// Of the tokenizer; empty for none.
  const std::string& tokenizer_sha256() const { return tokenizer_sha256_; }
  /// Throws: InvalidArgument for a model that does not support this task.
  void check(const std::string& model, bool dense_model) const;

  /// "segment".
  std::string name() const { return std::string(kind_->type().name().word); }
  const Task& what() const { return what_; }
  bool has_class_mask() const { return what_.has_class_mask(); }
  bool has_mask() const { return what_.mask.has_value(); }
  bool has_depth() const { return what_.depth.has_value(); }
  bool is_dense() const { return what_.is_dense(); }
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
  /// With `mixup`, of batches that are mixed in training. Throws: InvalidArgument for a task that
  /// has no label for each sample.
  std::unique_ptr<trainer::Objective> objective(std::int64_t outputs,
                                                const pipeline::MixUpOptions& mixup = {}) const;
  /// "10 classes", "10 labels", "mask and depth".
  std::string text(std::int64_t outputs) const;

  void to_json(nlohmann::ordered_json& json) const;
  void from_json(const nlohmann::ordered_json& json);

 private:
  void read_colours();
  void read_tokens();

  std::string tokenizer_sha256_ = {};
  std::optional<TaskKind> kind_ = {};
  Task what_ = {};
};

}  // namespace millrace::tools

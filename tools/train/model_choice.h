// ModelChoice: which model, for which task, on which images; and how a checkpoint stores that.
//
// Threads: a value type.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/opener.h"
#include "tools/image_options.h"
#include "tools/train/task_choice.h"
#include "trainer/model.h"

namespace millrace::tools {

struct ModelChoice {
  std::string model = "resnet18";
  /// "imagenet" or "3x3".
  std::string stem = "imagenet";
  /// Number of classes or labels; 0: to be found (tools/train/class_count.h).
  std::int64_t classes = 0;
  /// "LAYER=LAYER": two layers that share weights.
  std::vector<std::string> ties = {};
  ImageOptions images = {};
  TaskChoice task = {};

  /// Declares --model --stem --classes --tie and the image options; the task declares its own.
  void declare(CLI::App& app);
  /// Fills in the model's defaults: its task, and its input size: lenet 28 x 28 grey, a 3x3 stem 32
  /// x 32, unet 96 x 96, all others 224 x 224, in colour. The task decides how images are padded,
  /// and a table of mask colours how many classes there are.
  void settle();
  /// Throws: InvalidArgument for an unknown model, an unsupported size, or layers that cannot be
  /// tied.
  void check() const;
  /// Whether the number of classes must still be found.
  bool needs_classes() const { return classes == 0 && (!task.is_dense() || task.has_class_mask()); }

  /// Requires: settle() was called, and the number of classes is known.
  std::unique_ptr<trainer::GraphModel> build() const;

  /// The choice as JSON, for the run's folder and checkpoints.
  std::string to_json() const;
  /// Throws: Corrupt if the checkpoint was not written by `millrace train`.
  static ModelChoice from_json(const std::string& text);
  static ModelChoice from_checkpoint(const std::string& path, const io::Opener& opener);
};

/// Throws: InvalidArgument unless `path` is a folder or a URL, which is not accessed yet.
void check_checkpoint(const std::string& path);

}  // namespace millrace::tools

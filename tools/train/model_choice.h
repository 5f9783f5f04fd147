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
#include "trainer/models/resnet.h"

namespace millrace::tools {

inline constexpr std::int64_t kMaxClasses = 1 << 24;
/// Where nothing says how many: ImageNet's.
inline constexpr std::int64_t kUsualClasses = 1000;

struct ModelChoice {
  trainer::ArchitectureChoice model = trainer::models::ResNet18();
  /// Number of classes or labels; 0: to be found (tools/train/class_count.h).
  std::int64_t classes = 0;
  /// "LAYER=LAYER": two layers that share weights.
  std::vector<std::string> ties = {};
  ImageOptions images = {};
  TaskChoice task = {};

  /// Of the model: classify; of a U-Net segment if its classes are known, else mask-depth.
  TaskKind usual_task(bool has_classes) const;
  /// "resnet18".
  std::string name() const { return std::string(model.type().name().word); }
  /// Fills in the model's defaults: its task, and its images' size and channels. The task decides
  /// how images are padded, and a table of mask colours how many classes there are.
  void settle();
  /// Throws: InvalidArgument for an unsupported size, or layers that cannot be
  /// tied.
  void check() const;
  /// Whether the number of classes must still be found.
  bool needs_classes() const { return classes == 0 && (!task.is_dense() || task.has_class_mask()); }

  /// The same for the pictures of evaluations, where they have a size of their own.
  ModelChoice for_evaluation() const;
  /// The parameters that another size of pictures resizes. Throws: InvalidArgument, by its name,
  /// for one that no other size can have. Requires: as build().
  std::vector<std::string> resized_for_evaluation() const;
  /// Whether a run takes start values from training samples before its first step. Requires: as
  /// build().
  bool takes_start_samples() const;

  /// Requires: settle() was called, and the number of classes is known.
  std::unique_ptr<trainer::GraphModel> build() const;

  /// The choice as JSON, for the run's folder and checkpoints.
  std::string to_json() const;
  /// Whether a checkpoint's options say a model, as those of `millrace train` do.
  static bool is_said_in(const std::string& text);
  /// Throws: Corrupt if the checkpoint was not written by `millrace train`.
  static ModelChoice from_json(const std::string& text);
  static ModelChoice from_checkpoint(const std::string& path, const io::Opener& opener);
};

/// Throws: InvalidArgument unless `path` is a folder or a URL, which is not accessed yet.
void check_checkpoint(const std::string& path);

}  // namespace millrace::tools

// ModelOption: --model and --task, and what a user says of images and outputs, as a ModelChoice.
//
// Threads: one at a time.
#pragma once

#include <vector>

#include "tools/component_option.h"
#include "tools/train/model_choice.h"

namespace millrace::tools {

class ModelOption {
 public:
  /// `usual` is the model unless another is given.
  explicit ModelOption(const trainer::ArchitectureChoice& usual = ModelChoice().model);

  /// Of --model; of --task, and of its losses, too.
  static std::vector<const Table*> models() { return {&trainer::standard_models()}; }
  static std::vector<const Table*> tables() {
    return {&trainer::standard_models(), &standard_tasks(), &trainer::standard_losses()};
  }
  /// --model --classes --tie --size --channels.
  void declare_model(CLI::App& app, ModelChoice& choice);
  /// These and the other image options. `choice` is borrowed: it gets what is said.
  void declare(CLI::App& app, ModelChoice& choice);
  /// --task; without it the task is the model's default.
  void declare_task(CLI::App& app);
  /// Once the words are parsed. Throws: InvalidArgument for a parameter of another model or task.
  void settle(ModelChoice& choice);

 private:
  ComponentOption model_;
  ComponentOption task_;
  bool has_task_ = false;
};

}  // namespace millrace::tools

#include "tools/train/model_option.h"

#include <CLI/App.hpp>

#include "tools/help.h"
#include "tools/option_settings.h"
#include "tools/values.h"

namespace millrace::tools {

ModelOption::ModelOption(const trainer::ArchitectureChoice& usual)
    : model_("model", trainer::standard_models(), usual),
      task_("task", standard_tasks(), TaskKind(tasks::Classify())) {}

void ModelOption::declare_model(CLI::App& app, ModelChoice& choice) {
  app.option_defaults()->group("Model and images");
  model_.declare(app, "The network", ComponentOption::Fields::kOfRun)->check(in_short_help());
  app.add_option(
         "--classes", choice.classes,
         "Number of classes or labels; 0: from the label map beside the shards, else counted "
         "in the labels or masks")
      ->transform(whole_number(0, kMaxClasses))
      ->check(in_short_help());
  app.add_option("--tie", choice.ties,
                 "Layers that share their weights, such as layer1.1.conv1=layer1.0.conv1")
      ->type_name("LAYER=LAYER");
  choice.images.declare_shape(app);
}

void ModelOption::declare(CLI::App& app, ModelChoice& choice) {
  declare_model(app, choice);
  choice.images.declare_reading(app);
}

void ModelOption::declare_task(CLI::App& app) {
  has_task_ = true;
  app.option_defaults()->group("Task");
  task_
      .declare(app,
               "What the model predicts [unet: mask-depth, or segment with --classes or colors; "
               "others: classify]",
               ComponentOption::Fields::kOfRun)
      ->check(in_short_help());
  app.get_option("--task.colors")->check(names_contents());
}

void ModelOption::settle(ModelChoice& choice) {
  model_.settle();
  choice.model = trainer::ArchitectureChoice(model_.component());
  if (!has_task_) return;
  task_.set_usual(choice.usual_task(choice.classes > 0 || task_.is_given("colors")));
  task_.settle();
  choice.task.choose(TaskKind(task_.component()));
}

}  // namespace millrace::tools

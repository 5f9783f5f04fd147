// millrace train: shards to a trained model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "tools/commands.h"
#include "tools/config_file.h"
#include "tools/metrics_watch.h"
#include "tools/progress.h"
#include "tools/run_processes.h"
#include "tools/trace_options.h"
#include "tools/train/evaluation_files.h"
#include "tools/train/first_batch_line.h"
#include "tools/train/run_classes.h"
#include "tools/train/run_header.h"
#include "tools/train/run_input.h"
#include "tools/train/run_objective.h"
#include "tools/train/run_observers.h"
#include "tools/train/settle_run.h"
#include "tools/train/step_count.h"
#include "tools/train/step_dumps.h"
#include "tools/train/train_command_options.h"
#include "tools/version.h"
#include "trainer/cluster.h"
#include "trainer/fit.h"

namespace millrace::tools {
namespace {

class TrainCommand final : public Command {
 public:
  std::string name() const override { return "train"; }
  std::string summary() const override { return "Trains a model on shards"; }
  std::string example() const override {
    return fmt::format(
        "  millrace train 'cifar10/train-{{000000..000019}}.tar' \\\n      --val "
        "'cifar10/test-{{000000..000003}}.tar' --model 'resnet18(stem=3x3)' \\\n      --devices 2 "
        "--batch-size 64 --epochs 3 --augment hflip\n  millrace train 'pe/fold{{fold}}' "
        "--config pe-resnet34 --fold 0\n  millrace train --model resnet50 --classes 10 "
        "--summary\n\nRecipes for --config: {}\n\nNames from PyTorch and Lightning work too: "
        "--max-epochs, --learning-rate,\n--num-workers, --precision 16-mixed, --optimizer AdamW "
        "and the like (--help aliases).\n\nA CALL is a name, or a name with "
        "parameters: 'sgd(0.1, momentum=0.9)'.\nParameters of one: millrace train --help sgd. One "
        "alone: --optimizer.momentum 0.8.\n",
        fmt::join(recipe_names(), ", "));
  }

  std::vector<const Table*> tables() const override { return TrainCommandOptions::tables(); }

  void declare(CLI::App& app) override {
    options_.declare(app);
    dumps_.declare(app);
  }

  void check() override {
    require_trainer();
    options_.check_model();
    dumps_.check();
    if (!dumps_.program.empty()) options_.optimisation.check();
    if (!dumps_.needs_no_data(options_)) options_.check_run();
  }

  void run(CommandContext& context) override {
    if (dumps_.any()) return dumps_.print(options_, context);
    options_.read.network.attach(context);
    processes_.emplace(context, options_.process_options());
    processes_->guard(context, [&] {
      trace_work(options_.trace, *options_.read.network.opener(), processes_->topology(), context,
                 [&] { train(context); });
    });
  }

 private:
  void train(CommandContext& context) {
    trainer::Cluster& cluster = processes_->cluster();
    start(cluster, context);
    RunClasses classes(options_);
    show_status(terminal(context), "looking at the shards and the run folder");
    settle_run(options_, classes, cluster, context);
    if (options_.writes_folder())
      files_.emplace(options_.run_folder.run_dir, options_.read.network.opener(), context.stop,
                     context.log);
    show_status(terminal(context), "counting the shards' samples");
    const auto model = options_.choice.build();
    const RunObjective objective = make_objective();
    const auto input = open_input(cluster, context);
    classes.check_alike(cluster);
    settle_steps(options_, *model, input->train_samples(), cluster, context);
    processes_->print_places(context);
    print_run_header(options_, *model, context);
    show_status(terminal(context), "reading weights, compiling the model");
    options_.limits.check_reached(fit(*model, objective, *input, classes, context));
  }

  trainer::FitResult fit(const trainer::Model& model, const RunObjective& objective,
                         RunInput& input, RunClasses& classes, const CommandContext& context) {
    trainer::DeviceThreads threads(processes_->devices());
    const auto evaluated = evaluation_model();
    const auto backend = processes_->make_backend(options_.choice.images.of_bytes(), context);
    const trainer::FitInput fit{.model = model,
                                .objective = objective.scored(),
                                .train = input.train(),
                                .validation = input.validation(),
                                .start = input.start(),
                                .evaluation_model = evaluated.get(),
                                .devices = threads,
                                .backend = backend.get(),
                                .cluster = &processes_->cluster()};
    return fit_observed({.options = options_,
                         .fit = fit,
                         .input = input,
                         .objective = objective.detailed(),
                         .classes = classes,
                         .processes = *processes_,
                         .first_batch = *first_batch_,
                         .files = files_ ? &*files_ : nullptr,
                         .watch = watch_ ? &*watch_ : nullptr,
                         .context = context});
  }

  /// Once the devices are there: what this process is among the others, and who watches it.
  void start(trainer::Cluster& cluster, CommandContext& context) {
    trainer::all_do(cluster, [&] { options_.run.settle(cluster.topology()); });
    trainer::all_do(cluster, [&] {
      if (!options_.metrics.listen.empty())
        watch_.emplace(options_.metrics, cluster.topology(), context.log);
    });
    meet(cluster, context.trace);
  }

  /// Null where pictures have one size.
  std::unique_ptr<trainer::GraphModel> evaluation_model() const {
    const ModelChoice& choice = options_.choice;
    return choice.images.has_eval_size() ? choice.for_evaluation().build() : nullptr;
  }

  /// Details are what the run's page shows.
  RunObjective make_objective() {
    const ModelChoice& choice = options_.choice;
    trainer::DetailOptions details;
    if (files_) details.on_first_batch = first_batch_file(*files_, choice.images);
    return RunObjective(choice.task.objective(choice.classes, options_.data.mixup), options_.views,
                        !options_.run_folder.run_dir.empty(), std::move(details));
  }

  std::unique_ptr<RunInput> open_input(trainer::Cluster& cluster, const CommandContext& context) {
    first_batch_.emplace(terminal(context));
    std::unique_ptr<RunInput> input;
    trainer::all_do(cluster, [&] {
      options_.run.open_cache(context.log);
      input = std::make_unique<RunInput>(options_, first_batch_->hooks(), processes_->devices(),
                                         context);
    });
    return input;
  }

  trainer::TerminalLine* terminal(const CommandContext& context) const {
    return processes_->terminal_of(context);
  }

  std::optional<RunProcesses> processes_;  ///< until an error has been printed
  TrainCommandOptions options_;
  StepDumps dumps_;
  std::optional<RunFolderWriter> files_;  ///< of the first process, if there is a run folder
  std::optional<RunWatch> watch_;         ///< until the command ends
  std::optional<FirstBatchLine> first_batch_;
};

}  // namespace

std::unique_ptr<Command> make_train_command() { return std::make_unique<TrainCommand>(); }

}  // namespace millrace::tools

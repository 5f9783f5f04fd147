#include "tools/train/train_command_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "decode/transforms.h"
#include "io/base/error.h"
#include "io/base/json.h"
#include "tools/help.h"
#include "tools/option_settings.h"
#include "tools/parse.h"
#include "tools/train/saved_settings.h"
#include "tools/values.h"

namespace millrace::tools {

std::vector<const Table*> TrainCommandOptions::tables() {
  std::vector<const Table*> tables = OptimisationOptions::tables();
  for (const Table* table : {static_cast<const Table*>(&decode::standard_transforms()),
                             &OrderOptions::table(), &FaultOptions::table()})
    tables.push_back(table);
  std::ranges::copy(ModelOption::tables(), std::back_inserter(tables));
  return tables;
}

void TrainCommandOptions::declare(CLI::App& to) {
  app = &to;
  data.declare(to);
  read.faults.declare(to);
  read.network.declare(to);
  read.index.declare(to);
  model.declare(to, choice);
  model.declare_task(to);
  to.option_defaults()->group("Model and images");
  choice.images.declare_val_size(to);
  optimisation.declare(to);
  run.declare(to);
  run.declare_cache(to);
  declare_processes();
  run_folder.declare(to);
  limits.declare(to);
  trace.declare(to, true);
  metrics.declare(to);
  declare_log();
}

void TrainCommandOptions::declare_processes() {
  app->add_option("--allreduce", allreduce,
                  "How processes sum gradients: tree, the same bits for every number of processes "
                  "with as many devices in all; tree-bf16 sends half the bytes, rounded; mpi, "
                  "MPI's own, whose order is its own")
      ->transform(one_of({"tree", "tree-bf16", "mpi"}))
      ->check(may_change());
  declare_views(*app, views)->check(may_change())->check(measures());
  declare_heartbeat_timeout(*app, heartbeat_timeout);
}

void TrainCommandOptions::declare_log() {
  app->option_defaults()->group("Options");
  app->add_option("--seed", seed, "Seed of the weights, shuffles and augmentation")
      ->transform(seed_number())
      ->check(in_short_help());
  app->add_option("--log-steps", log_steps, "Steps between two log lines; 0: no log lines")
      ->transform(whole_number(0))
      ->check(may_change());
  app->add_option("--log-style", log_style,
                  "Lines of steps and epochs: plain; xla, those of PyTorch/XLA's tutorials, with "
                  "the losses as .npy files in the run folder")
      ->transform(one_of({"plain", "xla"}))
      ->check(may_change());
}

void TrainCommandOptions::check_model() {
  model.settle(choice);
  choice.check();
  choice.settle();
  run.check();
}

void TrainCommandOptions::check_run() {
  trace.check();
  metrics.check();
  data.settle(read);
  require(!data.order.chosen().fill || read.policy().on_fault == wds::OnFault::kSkip,
          "--fill is for --on-fault skip");
  limits.check();
  optimisation.check();
  check_contrast();
  check_evaluation();
  check_streams();
  run_folder.check(choice.task.objective(choice.classes, data.mixup)->measures(), has_validation());
}

void TrainCommandOptions::check_contrast() const {
  const Task& task = choice.task.what();
  if (!task.has_embeddings() || task.text) return;
  require(data.order.chosen().shuffle.copies > 1,
          "--task contrast compares views of the same sample: --order 'permutation(copies=2)'");
  require(limits.overfit_batches == 0, "--overfit-batches takes one view of each sample");
}

void TrainCommandOptions::check_evaluation() const {
  require(limits.overfit_batches == 0 || data.val_specs().empty(),
          "--overfit-batches evaluates on its own batches: leave out --val");
  require(limits.target_accuracy == 0 || (has_validation() && choice.task.what().has_class()),
          "--target-accuracy needs --val and --task classify");
  require(views == EvaluationViews::kOne || has_validation(), "--views needs --val");
  check_val_size();
  check_views(views, choice.task.is_dense());
  require(limits.sanity_val_steps == 0 || has_validation(), "--sanity-val-steps needs --val");
}

void TrainCommandOptions::check_val_size() const {
  if (!choice.images.has_eval_size()) return;
  require(limits.overfit_batches == 0, "--overfit-batches evaluates at --size");
  ModelChoice any = choice;
  any.classes = std::max<std::int64_t>(any.classes, 2);
  const auto resized = any.resized_for_evaluation();
  require(resized.empty(),
          fmt::format("--val-size: {} is of one size of pictures in training: evaluate with "
                      "`millrace eval --size {}`",
                      fmt::join(resized, ", "), extent_text(choice.images.eval_size)));
}

void TrainCommandOptions::check_streams() const {
  if (data.fake > 0) return;
  check_workers(data.train_specs(), run, read, data.order.chosen());
  if (!data.val_specs().empty()) check_workers(data.val_specs(), run, read);
}

bool TrainCommandOptions::is_given(const std::string& option) const {
  return app->get_option(option)->count() > 0;
}

std::vector<std::string> TrainCommandOptions::train_shards() const {
  if (data.fake > 0) return {};
  return read.lists.urls(data.train_specs());
}

std::vector<std::vector<std::string>> TrainCommandOptions::train_joins() const {
  if (data.fake > 0) return {};
  return read.lists.joined(data.join, data.train_specs());
}

std::int64_t TrainCommandOptions::samples_per_step() const {
  return run.topology.world_size() * run.batch_size * optimisation.accumulate;
}

ProcessOptions TrainCommandOptions::process_options() const {
  return {
      .devices = run.device_choice(),
      .plugins = run.plugins,
      .cluster = {.sums = allreduce == "mpi" ? trainer::SumsBy::kTransport : trainer::SumsBy::kTree,
                  .bf16_gradients = allreduce == "tree-bf16"},
      .heartbeat_timeout = heartbeat_timeout};
}

/// The choice of the model, which `eval` reads, and all options as they are resolved, which
/// --config takes.
std::string TrainCommandOptions::config_json() const {
  auto json = parse_json<nlohmann::ordered_json>(choice.to_json(), "options");
  json["options"] = options_json(*app);
  return json.dump(1) + "\n";
}

trainer::TrainOptions TrainCommandOptions::fit_options(const CommandContext& context) const {
  trainer::TrainOptions options{.precision = run.precision.compute(),
                                .seed = seed,
                                .log_steps = log_steps,
                                .epoch_lines = log_style == "plain",
                                .max_time = limits.time_limit(),
                                .sanity_val_steps = limits.sanity_val_steps,
                                .config_json = config_json(),
                                .settings = settings_of(*app),
                                .renew_settings = renewed_settings,
                                .opener = read.network.opener(),
                                .stop = context.stop,
                                .log = context.log,
                                .trace = context.trace};
  optimisation.apply(options);
  options.optimizer.round_to_bf16 = run.precision.rounds_weights();
  run_folder.apply(options);
  return options;
}

}  // namespace millrace::tools

#include "tools/train/settle_run.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/opener.h"
#include "tools/train/resumed_run.h"
#include "trainer/newest_checkpoint.h"

namespace millrace::tools {
namespace {

/// Whatever is wrong with them is an error of usage.
std::string check_run_places(const RunFolderOptions& folder) {
  try {
    folder.check_places();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidArgument) throw;
    throw Error(ErrorCode::kInvalidArgument, error.what());
  }
  return {};
}

/// Where hosts share no file system, the newest checkpoint may be on another one than process 0's.
void fetch_newest(const TrainCommandOptions& options, trainer::Cluster& cluster, const Log& log) {
  const std::string& run_dir = options.run_folder.run_dir;
  if (options.run_folder.resume != "auto" || io::is_network_url(run_dir) ||
      options.limits.fast_dev_run)
    return;
  trainer::fetch_newest_checkpoint(cluster, run_dir + "/checkpoints", log);
}

void settle_limits(TrainCommandOptions& options) {
  RunFolderOptions& folder = options.run_folder;
  if (options.limits.fast_dev_run) {
    options.optimisation.epochs = 1;
    folder = {.run_dir = "none", .init = folder.init, .replace_head = folder.replace_head};
    options.limits.target_accuracy = 0;
  }
  options.limits.settle();
}

void settle_class_names(TrainCommandOptions& options, RunClasses& classes,
                        const std::vector<std::string>& before) {
  auto names = classes.names(before);
  if (!names.empty() && static_cast<std::int64_t>(names.size()) == options.choice.classes)
    options.choice.task.names = std::move(names);
}

void find_out(TrainCommandOptions& options, RunClasses& classes, const CommandContext& context) {
  ModelChoice& choice = options.choice;
  options.run_folder.settle(choice.name(), *options.read.network.opener(), context.log);
  if (options.limits.deterministic) context.log.info("every run is deterministic");
  const auto before = resumed_choice(options);
  if (before) continue_as(*before, options, context.log);
  if (choice.needs_classes()) choice.classes = classes.count(context);
  const bool has_names = before && before->task.name() == choice.task.name();
  settle_class_names(options, classes, has_names ? before->task.names : std::vector<std::string>());
  if (!before) classes.check_init();
  classes.check_validation(context);
}

/// What the other processes are told.
std::string told(const TrainCommandOptions& options, const ResumedState& resumed) {
  const ImageOptions& images = options.choice.images;
  return nlohmann::json{{"run_dir", options.run_folder.run_dir},
                        {"resume", options.run_folder.resume},
                        {"streams", resumed.streams.streams},
                        {"seed_processes", resumed.streams.processes},
                        {"warmup", resumed.warmup},
                        {"classes", options.choice.classes},
                        {"fit", images.fit},
                        {"eval_resize", images.eval_resize},
                        {"eval_height", images.eval_size.height},
                        {"eval_width", images.eval_size.width},
                        {"interpolation", images.interpolation},
                        {"names", options.choice.task.names}}
      .dump();
}

void take(const nlohmann::json& found, TrainCommandOptions& options) {
  options.run_folder.run_dir = found.at("run_dir");
  options.run_folder.resume = found.at("resume");
  options.saved = {.streams = found.at("streams"), .processes = found.at("seed_processes")};
  options.optimisation.saved_warmup = found.at("warmup");
  options.choice.classes = found.at("classes");
  options.choice.task.names = found.at("names");
  ImageOptions& images = options.choice.images;
  images.fit = found.at("fit");
  images.eval_resize = found.at("eval_resize");
  images.eval_size = {found.at("eval_height").get<int>(), found.at("eval_width").get<int>()};
  images.interpolation = found.at("interpolation");
}

}  // namespace

void settle_run(TrainCommandOptions& options, RunClasses& classes, trainer::Cluster& cluster,
                const CommandContext& context) {
  trainer::decide(cluster, [&] { return check_run_places(options.run_folder); });
  fetch_newest(options, cluster, context.log);
  settle_limits(options);
  const std::string found = trainer::decide(cluster, [&] {
    find_out(options, classes, context);
    return told(options, resumed_state(options));
  });
  take(parse_json<nlohmann::json>(found, "what process 0 found out"), options);
}

}  // namespace millrace::tools

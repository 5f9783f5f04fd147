#include "tools/train/run_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "io/base/text.h"
#include "io/opener.h"
#include "tools/train/stored_image.h"
#include "trainer/nn/plan.h"

namespace millrace::tools {
namespace {

/// Shares of a range that nobody has named may all be small.
void warn_of_deep_levels(const Task& task, const StoredImageInput& stored, const Log& log) {
  const auto& depth = task.depth;
  if (!depth || depth->values.one > 0) return;
  const std::int64_t largest = find_largest_level(stored, depth->field);
  if (largest > 255)
    log.warn(fmt::format(
        "{} has levels of 16 bits, the first sample's up to {}: depths are shares of 65535, and "
        "predicted with 8 bits; with depth_one=LEVEL in --task that level is 1, and 16 bits are "
        "written",
        depth->field, largest));
}

/// Changes to the images that the user may not have intended.
std::string image_changes(const TrainCommandOptions& options, const CommandContext& context) {
  if (options.data.fake > 0) return {};
  const auto shards = options.train_shards();
  const StoredImageInput stored{.shards = shards,
                                .opener = *options.read.network.opener(),
                                .policy = options.read.policy(),
                                .stop = context.stop};
  warn_of_deep_levels(options.choice.task.what(), stored, context.log);
  const std::string changes = find_changes(stored, options.choice.images);
  return changes.empty() ? changes : " (" + changes + ")";
}

std::string images_text(const TrainCommandOptions& options, const CommandContext& context) {
  const ImageOptions& images = options.choice.images;
  const decode::Extent size = images.size;
  const decode::Extent canvas = images.canvas();
  const std::string padded =
      canvas == size ? "" : fmt::format(" padded to {}x{}", canvas.height, canvas.width);
  return fmt::format("{}x{}x{} images{}{}", size.height, size.width, images.channels, padded,
                     image_changes(options, context));
}

void print_model(const TrainCommandOptions& options, const trainer::Model& model,
                 const CommandContext& context) {
  const ModelChoice& choice = options.choice;
  const Log& log = context.log;
  const bool half = options.run.precision.compute() == trainer::nn::Precision::kBFloat16;
  log.info(fmt::format("{}: {} parameters, {}, {}, {}", model.name(),
                       model.parameters().num_values(), choice.task.text(choice.classes),
                       images_text(options, context), options.run.precision.word));
  if (choice.images.has_eval_size())
    log.info("evaluations are of pictures of " + extent_text(choice.images.eval_size));
  if (half && !trainer::nn::has_native_bfloat16())
    log.info("this machine has no bf16 instructions: results of float32 are rounded");
}

std::string processes_text(const Topology& topology) {
  std::string devices = counted(static_cast<std::uint64_t>(topology.devices), "device");
  if (topology.processes == 1) return devices;
  return fmt::format("{} processes x {}", topology.processes, devices);
}

/// "2 devices x batch size 64 x 2 batches = 256 samples per step".
std::string step_text(const TrainCommandOptions& options) {
  const std::int64_t batches = options.optimisation.accumulate;
  return fmt::format("{} x batch size {}{} = {} per step", processes_text(options.run.topology),
                     options.run.batch_size,
                     batches > 1 ? fmt::format(" x {} batches", batches) : "",
                     counted(static_cast<std::uint64_t>(options.samples_per_step()), "sample"));
}

void print_work(const TrainCommandOptions& options, const Log& log) {
  const std::string& run_dir = options.run_folder.run_dir;
  log.info(fmt::format(
      "{}, {}; {}, {}{}",
      options.data.fake > 0 ? "fake data" : counted(options.train_shards().size(), "shard"),
      step_text(options), options.optimisation.text(),
      counted(static_cast<std::uint64_t>(options.optimisation.epochs), "epoch"),
      run_dir.empty() ? "" : "; run folder " + io::printable_url(run_dir)));
}

/// A folder that also contains the test set is easily given as the training set.
void warn_of_overlap(const TrainCommandOptions& options, const Log& log) {
  if (options.limits.overfit_batches > 0 || options.data.fake > 0 ||
      options.data.val_specs().empty())
    return;
  const auto train = options.train_shards();
  const std::set<std::string> trained(train.begin(), train.end());
  const auto val = options.read.lists.urls(options.data.val_specs());
  const auto both =
      std::ranges::count_if(val, [&](const std::string& shard) { return trained.contains(shard); });
  if (both > 0)
    log.warn(
        fmt::format("training and --val have {} in common: val_ measures are not of unseen samples",
                    counted(static_cast<std::uint64_t>(both), "shard")));
}

}  // namespace

void print_run_header(const TrainCommandOptions& options, const trainer::Model& model,
                      const CommandContext& context) {
  print_model(options, model, context);
  print_work(options, context.log);
  warn_of_overlap(options, context.log);
  const LimitOptions& limits = options.limits;
  if (limits.val_batches > 0 && !limits.fast_dev_run && !options.has_validation())
    context.log.warn("--limit-val-batches has no effect without --val");
}

}  // namespace millrace::tools

#include "tools/train/run_classes.h"

#include <span>
#include <utility>

#include "io/base/hash.h"
#include "tools/train/class_count.h"
#include "tools/train/head_classes.h"
#include "trainer/setting.h"

namespace millrace::tools {
namespace {

/// Empty for no names.
std::string digest_of_names(const std::vector<std::string>& names) {
  if (names.empty()) return {};
  Sha256 hash;
  for (const std::string& name : names) {
    hash.update(std::as_bytes(std::span(name)));
    hash.update(std::as_bytes(std::span("\n", 1)));
  }
  return hash.hex();
}

}  // namespace

std::int64_t RunClasses::count(const CommandContext& context) {
  constexpr std::int64_t kFakeClasses = 10;
  if (options_.data.fake > 0) return kFakeClasses;
  const auto shards = options_.train_shards();
  if (options_.limits.fast_dev_run && options_.choice.task.what().has_class())
    return outputs_of_dry_run(shards.front(), context.log);
  return count_outputs({.shards = shards,
                        .joins = options_.train_joins(),
                        .opener = *options_.read.network.opener(),
                        .label_maps = label_maps_,
                        .policy = options_.read.policy(),
                        .stop = context.stop,
                        .log = context.log},
                       options_.choice.task);
}

/// A dry run takes more outputs than it needs rather than read every label.
std::int64_t RunClasses::outputs_of_dry_run(const std::string& shard, const Log& log) {
  constexpr std::int64_t kImageNetClasses = 1000;
  const auto names = label_maps_.names({&shard, 1});
  if (!names.empty()) return static_cast<std::int64_t>(names.size());
  log.info("1000 outputs: a dry run does not count labels; --classes sets their number");
  return kImageNetClasses;
}

/// Each mask class has its own IoU and each label its column in predictions, named by the label
/// map if there is one; a class is the same one wherever the model is evaluated.
bool RunClasses::have_names() const {
  const Task& what = options_.choice.task.what();
  const bool named = what.has_class_mask() || what.has_labels() || what.has_class();
  return named && options_.data.fake == 0;
}

std::vector<std::string> RunClasses::names(const std::vector<std::string>& before) {
  if (!have_names() || !options_.choice.task.names.empty()) return {};
  return label_maps_.names(labelled_shards(), before, "the run's checkpoint");
}

std::vector<std::string> RunClasses::labelled_shards() const {
  std::vector<std::string> shards = options_.train_shards();
  const auto specs = options_.data.val_specs();
  if (specs.empty()) return shards;
  for (std::string& shard : options_.read.lists.urls(specs)) shards.push_back(std::move(shard));
  return shards;
}

void RunClasses::check_init() const {
  const RunFolderOptions& folder = options_.run_folder;
  if (folder.init.empty() || folder.replace_head) return;
  check_head_classes(folder.init, options_.choice, *options_.read.network.opener());
}

void RunClasses::check_validation(const CommandContext& context) {
  const auto specs = options_.data.val_specs();
  if (options_.data.fake > 0 || options_.limits.fast_dev_run || specs.empty() ||
      !options_.choice.task.what().has_class())
    return;
  const auto shards = options_.read.lists.urls(specs);
  check_validation_labels({.shards = shards,
                           .opener = *options_.read.network.opener(),
                           .label_maps = label_maps_,
                           .policy = options_.read.policy(),
                           .stop = context.stop,
                           .log = context.log},
                          options_.choice.classes);
}

void RunClasses::check_alike(trainer::Cluster& cluster) {
  if (cluster.topology().processes == 1 || !have_names()) return;
  trainer::Setting map{.name = "the class names beside the shards"};
  trainer::all_do(cluster,
                  [&] { map.digest = digest_of_names(label_maps_.names(labelled_shards())); });
  trainer::check_alike(cluster, std::span(&map, 1));
}

}  // namespace millrace::tools

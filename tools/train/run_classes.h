// RunClasses: how many outputs a run's model has, and what its classes are called: from the label
// maps beside the shards, else from the samples' labels.
//
//   RunClasses classes(options);
//   if (options.choice.needs_classes()) options.choice.classes = classes.count(context);
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/label_map.h"
#include "tools/train/train_command_options.h"
#include "trainer/cluster.h"

namespace millrace::tools {

class RunClasses {
 public:
  /// Borrows `options`, whose network is attached.
  explicit RunClasses(const TrainCommandOptions& options)
      : options_(options), label_maps_(*options.read.network.opener()) {}

  /// The number of outputs, as the log says where it is from. Throws: as count_outputs().
  std::int64_t count(const CommandContext& context);
  /// The names that the label maps give, of a task whose classes have names that it does not say
  /// itself. `before`: those of the run that is resumed, with which they must agree. Throws: as
  /// LabelMaps::names().
  std::vector<std::string> names(const std::vector<std::string>& before = {});

  /// Throws: as check_head_classes() for the classes of --init.
  void check_init() const;
  /// Throws: as check_validation_labels() for those of --val.
  void check_validation(const CommandContext& context);
  /// Hosts without a shared file system have each their own label maps. A collective. Throws: as
  /// trainer::check_alike().
  void check_alike(trainer::Cluster& cluster);

 private:
  bool have_names() const;
  std::vector<std::string> labelled_shards() const;
  std::int64_t outputs_of_dry_run(const std::string& shard, const Log& log);

  const TrainCommandOptions& options_;
  LabelMaps label_maps_;  ///< read where they are asked for
};

}  // namespace millrace::tools

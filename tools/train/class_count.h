// class_count: finds how many classes or labels a set of shards has, if the user does not say.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/opener.h"
#include "tools/label_map.h"
#include "tools/train/task_choice.h"
#include "wds/fault_ledger.h"

namespace millrace::tools {

struct ClassCountInput {
  std::span<const std::string> shards;
  /// Lists that complete them: labels are counted in the list whose first sample has one.
  std::vector<std::vector<std::string>> joins = {};
  const io::Opener& opener;
  LabelMaps& label_maps;
  wds::FaultPolicy policy = {};
  std::stop_token stop = {};
  Log log = {};
};

/// The number of classes: from the label map next to the shards; else one more than the highest
/// `cls`, derived from the indexes if all shards have one, without reading samples; else from up to
/// 256 MiB of samples spread over the set (64 MiB over the network), 16 shards at once. A line in
/// the log says which. Independent of the number of threads. Throws: InvalidArgument if there is
/// neither map nor label; as reading.
std::int64_t count_classes(const ClassCountInput& input);

/// A look at the set that a model of `classes` outputs is evaluated on, before hours of training:
/// all labels where all shards have an index, else those of up to 16 MiB of samples on disk; none
/// over the network, where that would be a wait. Throws:
/// InvalidArgument for a label that the model has no output of; as count_classes().
void check_validation_labels(const ClassCountInput& input, std::int64_t classes);

/// The number of labels: how many numbers the first sample's `json` has under `key`. Throws:
/// InvalidArgument if it has none; Corrupt, and as reading.
std::int64_t count_labels(const ClassCountInput& input, const std::string& key);

/// From the label map next to the shards, else one more than the highest number in the masks that
/// is not ignored, of as many samples as count_classes() reads. Throws: InvalidArgument if there is
/// neither map nor mask; Corrupt, and as reading.
std::int64_t count_mask_classes(const ClassCountInput& input, const TaskChoice& task);

/// The number of the task's outputs, by one of the above.
std::int64_t count_outputs(const ClassCountInput& input, const TaskChoice& task);

}  // namespace millrace::tools

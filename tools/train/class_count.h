// class_count: how many classes or labels a set of shards has, where nobody said.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>

#include "io/base/log.h"
#include "io/opener.h"
#include "tools/train/task_choice.h"
#include "wds/fault_ledger.h"

namespace millrace::tools {

struct ClassCountInput {
  std::span<const std::string> shards;
  const io::Opener& opener;
  wds::FaultPolicy policy = {};
  std::stop_token stop = {};
  Log log = {};
};

/// From the label map beside the shards; else one more than the highest `cls`, which indexes beside
/// all shards tell without a sample being read; else of 256 MiB of samples from all over the set,
/// 64 MiB over the network, 16 shards at once. A line in the log says which. The same for every
/// number of threads.
/// Throws: InvalidArgument when there is neither map nor label; what reading throws.
std::int64_t count_classes(const ClassCountInput& input);

/// The labels of the first sample: how many numbers its `json` has under `key`.
/// Throws: InvalidArgument when it has none; Corrupt, what reading throws.
std::int64_t count_labels(const ClassCountInput& input, const std::string& key);

/// From the label map beside the shards, else one more than the highest number in the masks that is
/// not ignored, of as many samples as count_classes() reads. Throws: InvalidArgument when there is
/// neither map nor mask; Corrupt, what reading throws.
std::int64_t count_mask_classes(const ClassCountInput& input, const TaskChoice& task);

/// What the task's outputs are: one of the above.
std::int64_t count_outputs(const ClassCountInput& input, const TaskChoice& task);

}  // namespace millrace::tools

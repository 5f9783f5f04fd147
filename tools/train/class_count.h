// class_count: how many classes and samples a training set has, where nobody said.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>

#include "io/base/log.h"
#include "io/opener.h"
#include "wds/fault_ledger.h"

namespace millrace::tools {

struct ClassCountInput {
  std::span<const std::string> shards;
  const io::Opener& opener;
  wds::FaultPolicy policy = {};
  std::stop_token stop = {};
  Log log = {};
};

/// What a pass over a training set's first 256 MiB tells.
struct TrainingSetFacts {
  std::int64_t classes = 0;
  /// Of the whole set; 0 when it is larger than what was looked at.
  std::int64_t samples = 0;
};

/// Classes are `known_classes` where that is not 0, else those of the label map beside the shards,
/// else one more than the highest `cls` seen; a line in the log says which.
/// Throws: InvalidArgument when there is neither map nor label; what reading throws.
TrainingSetFacts look_through(const ClassCountInput& input, std::int64_t known_classes);

}  // namespace millrace::tools

// step_count: how many steps an epoch has, for schedules that need it.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>

#include "io/base/log.h"
#include "io/opener.h"
#include "wds/fault_ledger.h"

namespace millrace::tools {

struct StepCountInput {
  std::span<const std::string> shards;
  const io::Opener& opener;
  wds::FaultPolicy policy = {};
  std::int64_t epoch_samples = 0;  ///< of all processes, if known
  std::int64_t global_batch = 1;   ///< samples in a batch of every device
  bool drops = false;              ///< incomplete global batches are left out
  std::int64_t max_batches = 0;    ///< per device; 0: all
  std::int64_t accumulate = 1;
  std::stop_token stop = {};
  Log log = {};
};

/// From the epoch's number of samples, else by reading the shards if they are local. Throws:
/// InvalidArgument for remote shards; as reading.
std::int64_t count_steps(const StepCountInput& input);

}  // namespace millrace::tools

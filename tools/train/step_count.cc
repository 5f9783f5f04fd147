#include "tools/train/step_count.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/local_path.h"
#include "tools/scan.h"

namespace millrace::tools {
namespace {

std::int64_t divide_up(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

bool is_local(const std::string& shard) { return io::local_path(shard).has_value(); }

std::int64_t scan_samples(const StepCountInput& input) {
  if (!std::all_of(input.shards.begin(), input.shards.end(), is_local))
    throw Error(ErrorCode::kInvalidArgument,
                "the schedule needs the number of steps in an epoch: give --steps-per-epoch or "
                "--epoch-samples, or index the shards");
  wds::FaultLedger ledger(unlogged(input.policy));
  std::int64_t samples = 0;
  scan({.shards = input.shards, .opener = input.opener, .ledger = ledger, .stop = input.stop},
       [&](const wds::Sample&) { return ++samples > 0; });
  return samples;
}

}  // namespace

std::int64_t count_steps(const StepCountInput& input) {
  const std::int64_t samples = input.epoch_samples > 0 ? input.epoch_samples : scan_samples(input);
  std::int64_t batches =
      input.drops ? samples / input.global_batch : divide_up(samples, input.global_batch);
  if (input.max_batches > 0) batches = std::min(batches, input.max_batches);
  const std::int64_t steps = std::max<std::int64_t>(1, divide_up(batches, input.accumulate));
  input.log.info(fmt::format("{} make {} per epoch",
                             counted(static_cast<std::uint64_t>(samples), "sample"),
                             counted(static_cast<std::uint64_t>(steps), "step")));
  return steps;
}

}  // namespace millrace::tools

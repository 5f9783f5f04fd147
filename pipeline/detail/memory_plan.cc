#include "pipeline/detail/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/base/error.h"
#include "pipeline/detail/resolve.h"

namespace millrace::pipeline::detail {
namespace {

constexpr std::size_t kMiB = std::size_t{1024} * 1024;
/// What a stream's reader holds besides its blocks: the network's or the tar reader's buffer.
constexpr std::size_t kNetworkReaderBytes = 5 * kMiB;
constexpr std::size_t kFileReaderBytes = kMiB;

std::size_t reader_bytes(const PipelineOptions& options) {
  const bool network =
      std::any_of(options.shards.begin(), options.shards.end(), io::is_network_url);
  return network ? kNetworkReaderBytes : kFileReaderBytes;
}

/// Batches being filled: enough for every thread to have a block, without holding much memory.
std::int64_t batches_in_work(const PipelineOptions& options, std::size_t batch_bytes) {
  constexpr std::size_t kEnoughBytes = 16 * kMiB;
  const auto block = static_cast<std::int64_t>(wds::SampleBlock::kMaxSamples);
  const std::int64_t for_threads =
      (options.resources.threads * block + options.batch.size - 1) / options.batch.size;
  const auto for_memory =
      static_cast<std::int64_t>(std::max<std::size_t>(1, kEnoughBytes / batch_bytes));
  return 1 + std::min(for_threads, for_memory);
}

/// Parts of the sum that no option but the user's own makes smaller.
std::size_t fixed_bytes(const PipelineOptions& options, std::size_t lanes) {
  const bool shuffles = options.shuffle.buffer_samples > 1;
  return lanes * (reader_bytes(options) + (shuffles ? options.shuffle.buffer_bytes : 0));
}

std::size_t bound(const MemoryPlan& plan, std::size_t fixed, std::size_t lanes,
                  std::size_t batch_bytes) {
  constexpr std::size_t kBlock = wds::SampleBlock::kMaxBytes;
  return fixed + lanes * plan.blocks_per_lane * kBlock + plan.decode_bytes + kBlock +
         (static_cast<std::size_t>(plan.permits) + 1) * batch_bytes;
}

/// Takes one step down; false where there is none left.
bool shrink(MemoryPlan& plan) {
  if (plan.permits > 2) {
    --plan.permits;
  } else if (plan.blocks_per_lane > 1) {
    --plan.blocks_per_lane;
  } else if (plan.decode_bytes > kMiB) {
    plan.decode_bytes = kMiB;
  } else if (plan.permits > 1) {
    --plan.permits;
  } else {
    return false;
  }
  return true;
}

}  // namespace

MemoryPlan plan_memory(const PipelineOptions& options, std::size_t batch_bytes) {
  batch_bytes = std::max<std::size_t>(batch_bytes, 1);
  const std::size_t lanes = owned_streams(options).size();
  const std::size_t fixed = fixed_bytes(options, lanes);
  const std::size_t budget = options.resources.memory_budget_bytes;
  MemoryPlan plan{.permits = options.resources.prefetch + batches_in_work(options, batch_bytes),
                  .blocks_per_lane = 2,
                  .decode_bytes = static_cast<std::size_t>(options.resources.threads) * 2 * kMiB};
  const auto sum = [&] { return bound(plan, fixed, lanes, batch_bytes); };
  while (budget > 0 && sum() > budget && shrink(plan)) continue;
  plan.bound_bytes = sum();
  if (budget > 0 && plan.bound_bytes > budget) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("a memory budget of {} bytes is too small: 2 batches of {} bytes, {} streams "
                    "of {} bytes and 2 MiB for decoding are the least, {} bytes",
                    budget, batch_bytes, lanes, fixed / lanes + wds::SampleBlock::kMaxBytes,
                    plan.bound_bytes));
  }
  return plan;
}

}  // namespace millrace::pipeline::detail

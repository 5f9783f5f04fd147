#include "pipeline/detail/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>
#include <thread>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "wds/split.h"

namespace millrace::pipeline::detail {
namespace {

constexpr std::size_t kMiB = 1024 * 1024;
/// What a stream's reader holds besides its blocks: the network's or the tar reader's buffer.
constexpr std::size_t kNetworkReaderBytes = 5 * kMiB;
constexpr std::size_t kFileReaderBytes = kMiB;

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(ErrorCode::kInvalidArgument, message);
}

void check_batches(const PipelineOptions& options) {
  const BatchOptions& batch = options.batch;
  require(batch.size > 0, fmt::format("batch size {}: must be above 0", batch.size));
  require(!(batch.partial && batch.drop_last), "a last batch is either partial or dropped");
  require(!options.fields.empty(), "a pipeline needs at least one field");
  const EpochOptions& epochs = options.epochs;
  require(epochs.samples >= 0 && epochs.batches >= 0, "an epoch's samples and batches: 0 or above");
  require(!epochs.resampled || epochs.samples > 0 || epochs.batches > 0,
          "resampled shards have no end: an epoch needs its number of samples or batches");
}

/// A user's splitters may leave a stream without shards: better found now than in its epoch.
void check_splitters(const PipelineOptions& options) {
  require(!options.epochs.resampled, "resampled shards are drawn from all: no splitters with them");
  wds::StreamSpec spec{.shards = std::make_shared<const std::vector<std::string>>(options.shards),
                       .shuffle = options.shuffle,
                       .num_streams = options.split.streams,
                       .epoch = options.epochs.first,
                       .world = options.split.world,
                       .node_splitter = options.split.node_splitter,
                       .worker_splitter = options.split.worker_splitter};
  for (const int stream : owned_streams(options)) {
    spec.stream = stream;
    static_cast<void>(wds::stream_shards(spec));
  }
}

void check_split(const PipelineOptions& options) {
  if (options.split.node_splitter || options.split.worker_splitter) {
    check_splitters(options);
  } else if (!options.epochs.resampled) {
    wds::check_enough_shards(options.shards.size(), options.split);
  }
}

void check_resources(const ResourceOptions& resources) {
  require(resources.threads >= 0, fmt::format("threads {}: must be above 0", resources.threads));
  require(resources.io_threads >= 0,
          fmt::format("I/O threads {}: must be above 0", resources.io_threads));
  require(resources.prefetch > 0, fmt::format("prefetch {}: must be above 0", resources.prefetch));
}

std::size_t reader_bytes(const PipelineOptions& options) {
  const bool network =
      std::any_of(options.shards.begin(), options.shards.end(), io::is_network_url);
  return network ? kNetworkReaderBytes : kFileReaderBytes;
}

/// The same shards may lie elsewhere when a run is resumed.
std::string base_name(const std::string& url) {
  const std::string path = io::printable_url(url);
  return path.substr(path.find_last_of('/') + 1);
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

}  // namespace

PipelineOptions resolve_options(PipelineOptions options) {
  check_batches(options);
  check_resources(options.resources);
  require(!options.shards.empty(), "no shards");
  options.split.streams = wds::num_streams(options.split);
  check_split(options);
  ResourceOptions& resources = options.resources;
  const auto cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  const auto lanes = static_cast<int>(owned_streams(options).size());
  if (resources.threads == 0) resources.threads = cores;
  if (resources.io_threads == 0) resources.io_threads = 16;
  resources.io_threads = std::min(resources.io_threads, lanes);
  if (!options.opener) options.opener = std::make_shared<io::UrlOpener>();
  return options;
}

std::vector<int> owned_streams(const PipelineOptions& options) {
  return wds::streams_of_rank(options.split);
}

MemoryPlan plan_memory(const PipelineOptions& options, std::size_t batch_bytes) {
  batch_bytes = std::max<std::size_t>(batch_bytes, 1);
  const std::size_t lanes = owned_streams(options).size();
  const std::size_t fixed = fixed_bytes(options, lanes);
  const std::size_t budget = options.resources.memory_budget_bytes;
  MemoryPlan plan{.permits = options.resources.prefetch + batches_in_work(options, batch_bytes),
                  .blocks_per_lane = 2,
                  .decode_bytes = static_cast<std::size_t>(options.resources.threads) * 2 * kMiB};
  const auto sum = [&] { return bound(plan, fixed, lanes, batch_bytes); };
  while (budget > 0 && sum() > budget) {
    if (plan.permits > 2) {
      --plan.permits;
    } else if (plan.blocks_per_lane > 1) {
      --plan.blocks_per_lane;
    } else if (plan.decode_bytes > kMiB) {
      plan.decode_bytes = kMiB;
    } else if (plan.permits > 1) {
      --plan.permits;
    } else {
      break;
    }
  }
  plan.bound_bytes = sum();
  require(budget == 0 || plan.bound_bytes <= budget,
          fmt::format("a memory budget of {} bytes is too small: 2 batches of {} bytes, {} streams "
                      "of {} bytes and 2 MiB for decoding are the least, {} bytes",
                      budget, batch_bytes, lanes, fixed / lanes + wds::SampleBlock::kMaxBytes,
                      plan.bound_bytes));
  return plan;
}

std::uint64_t order_fingerprint(const PipelineOptions& options) {
  const wds::ShuffleOptions& shuffle = options.shuffle;
  std::string text = fmt::format(
      "{}/{}/{}|{} {} {} {} {} {} {} {}|{} {} {} {}", options.split.world, options.split.rank,
      options.split.streams, shuffle.shards, shuffle.buffer_samples, shuffle.buffer_bytes,
      shuffle.initial_samples, shuffle.seed, static_cast<int>(shuffle.order), shuffle.shard_buffer,
      shuffle.detshuffle, options.batch.size, options.epochs.samples, options.epochs.batches,
      options.epochs.resampled);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  for (const std::string& shard : options.shards) {
    const std::string name = base_name(shard) + '\n';
    hash.update(std::as_bytes(std::span(name)));
  }
  const std::string hex = hash.hex().substr(0, 16);
  std::uint64_t value = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
  return value;
}

}  // namespace millrace::pipeline::detail

#include "wds/detail/sample_fetch.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <optional>
#include <utility>

#include "io/base/threads.h"
#include "wds/detail/forward_reader.h"
#include "wds/detail/joiner.h"

namespace millrace::wds::detail {
namespace {

// A buffer's samples lie in few shards: the one that was open, and some before it.
constexpr std::size_t kShardsAtOnce = 4;

/// What is wanted of one shard: indexes into the refs, by their offsets.
struct WantedShard {
  std::string url;
  std::uint32_t shard = 0;
  std::vector<std::size_t> wanted = {};
};

std::vector<WantedShard> by_shard(const std::vector<StreamPosition::SampleRef>& refs,
                                  const std::function<std::string(std::uint32_t shard)>& url_of) {
  std::vector<std::size_t> order(refs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&refs](std::size_t a, std::size_t b) {
    return std::pair(refs[a].shard, refs[a].offset) < std::pair(refs[b].shard, refs[b].offset);
  });
  std::vector<WantedShard> shards;
  for (const std::size_t i : order) {
    if (shards.empty() || shards.back().shard != refs[i].shard)
      shards.push_back({.url = url_of(refs[i].shard), .shard = refs[i].shard});
    shards.back().wanted.push_back(i);
  }
  return shards;
}

/// Returns how many bytes it read.
std::uint64_t fetch_shard(const WantedShard& shard,
                          const std::vector<StreamPosition::SampleRef>& refs,
                          const io::Opener& opener, const StreamSpec& spec,
                          std::vector<BufferedSample>& samples) {
  ShardOptions options = spec.shard;
  // Faulty samples are not among those wanted, so their faults must not stop this pass.
  options.lenient = true;
  ForwardReader reader(shard.url, opener, options);
  std::optional<Joiner> joiner;
  if (spec.joins) joiner.emplace(*spec.joins, shard.url, opener, spec.shard, nullptr);
  for (const std::size_t i : shard.wanted) {
    samples[i] = {reader.at(refs[i].offset), refs[i].shard};
    if (joiner) joiner->complete(samples[i].sample);
  }
  return reader.bytes() + (joiner ? joiner->bytes() : 0);
}

}  // namespace

FetchedSamples fetch_samples(const std::vector<StreamPosition::SampleRef>& refs,
                             const std::function<std::string(std::uint32_t shard)>& url_of,
                             const io::Opener& opener, const StreamSpec& spec) {
  std::vector<BufferedSample> samples(refs.size());
  const std::vector<WantedShard> shards = by_shard(refs, url_of);
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> bytes{0};
  std::vector<std::exception_ptr> failures(shards.size());
  const auto work = [&] {
    for (std::size_t i = next++; i < shards.size(); i = next++) {
      try {
        bytes += fetch_shard(shards[i], refs, opener, spec, samples);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  run_on_threads(std::min(kShardsAtOnce, shards.size()), work);
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return {.samples = std::move(samples), .bytes = bytes};
}

}  // namespace millrace::wds::detail

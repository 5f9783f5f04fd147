#include "wds/detail/sample_fetch.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <thread>
#include <utility>

#include "io/base/error.h"

namespace millrace::wds::detail {
namespace {

// Reading and dropping this much costs less than a new request, or than opening a file.
constexpr std::uint64_t kWideNetworkGap = std::uint64_t{4} * 1024 * 1024;
constexpr std::uint64_t kWideFileGap = std::uint64_t{128} * 1024;
// A buffer's samples lie in few shards: the one that was open, and some before it.
constexpr std::size_t kShardsAtOnce = 4;

/// One shard, read forward from one wanted sample to the next.
class Fetcher {
 public:
  Fetcher(std::string url, const io::Opener& opener, const ShardOptions& options)
      : url_(std::move(url)),
        opener_(opener),
        options_(options),
        wide_gap_(io::is_network_url(url_) ? kWideNetworkGap : kWideFileGap) {
    // Faulty samples are not among those wanted, so their faults must not stop this pass.
    options_.lenient = true;
  }

  Sample at(std::uint64_t offset) {
    // What is packed is unpacked from its beginning, whatever the offset.
    const bool opens =
        !reader_ || (offset > reader_->position() + wide_gap_ && !reader_->compressed());
    if (opens) {
      options_.offset = offset;
      reader_.emplace(opener_, url_, options_);
    }
    const std::uint64_t before = reader_->position();
    Sample sample = find(offset);
    bytes_ += reader_->position() - (opens && reader_->compressed() ? 0 : before);
    return sample;
  }
  /// That were read, unpacked.
  std::uint64_t bytes() const { return bytes_; }

 private:
  Sample find(std::uint64_t offset) {
    for (Sample sample; next(sample);) {
      if (sample.offset == offset) return sample;
      if (sample.offset > offset) break;
    }
    throw Error(ErrorCode::kCorrupt, "no sample where the saved position says: the shard changed",
                {.url = io::printable_url(url_), .offset = offset});
  }

  bool next(Sample& sample) {
    for (;;) {
      try {
        return reader_->next(sample);
      } catch (const Error&) {
        if (!reader_->can_continue()) throw;
      }
    }
  }

  std::string url_;
  const io::Opener& opener_;
  ShardOptions options_;
  std::uint64_t wide_gap_;
  std::optional<ShardReader> reader_;
  std::uint64_t bytes_ = 0;
};

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
                          const io::Opener& opener, const ShardOptions& options,
                          std::vector<BufferedSample>& samples) {
  Fetcher fetcher(shard.url, opener, options);
  for (const std::size_t i : shard.wanted) samples[i] = {fetcher.at(refs[i].offset), refs[i].shard};
  return fetcher.bytes();
}

}  // namespace

FetchedSamples fetch_samples(const std::vector<StreamPosition::SampleRef>& refs,
                             const std::function<std::string(std::uint32_t shard)>& url_of,
                             const io::Opener& opener, const ShardOptions& options) {
  std::vector<BufferedSample> samples(refs.size());
  const std::vector<WantedShard> shards = by_shard(refs, url_of);
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> bytes{0};
  std::vector<std::exception_ptr> failures(shards.size());
  const auto work = [&] {
    for (std::size_t i = next++; i < shards.size(); i = next++) {
      try {
        bytes += fetch_shard(shards[i], refs, opener, options, samples);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < std::min(kShardsAtOnce, shards.size()); ++i)
      helpers.emplace_back(work);
    work();
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return {.samples = std::move(samples), .bytes = bytes};
}

}  // namespace millrace::wds::detail

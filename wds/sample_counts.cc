#include "wds/sample_counts.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <thread>

#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

using Counts = std::vector<std::uint64_t>;

/// Shards are dealt out in order, so all before the first that has no count were looked up.
class Lookup {
 public:
  Lookup(const io::Opener& opener, std::span<const std::string> shards, const std::stop_token& stop)
      : opener_(opener), shards_(shards), stop_(stop), found_(shards.size()) {}

  /// The next shard's count. False: all are looked up, or one has none.
  bool step() {
    if (ended_) return false;
    const std::size_t shard = next_++;
    if (shard >= shards_.size()) return false;
    try {
      found_[shard].count = read_sample_count(opener_, index_url(shards_[shard]), stop_);
    } catch (...) {
      found_[shard].fault = std::current_exception();
    }
    if (!found_[shard].count) ended_ = true;
    return !ended_;
  }

  void run(std::size_t threads) {
    std::vector<std::jthread> others;
    for (std::size_t i = 1; i < threads; ++i)
      others.emplace_back([this] {
        while (step()) continue;
      });
    while (step()) continue;
  }

  std::shared_ptr<const Counts> counts() const {
    auto counts = std::make_shared<Counts>();
    for (const Found& found : found_) {
      if (found.fault) std::rethrow_exception(found.fault);
      if (!found.count) return nullptr;
      counts->push_back(*found.count);
    }
    return counts;
  }

 private:
  struct Found {
    std::optional<std::uint64_t> count;
    std::exception_ptr fault;
  };

  const io::Opener& opener_;
  std::span<const std::string> shards_;
  const std::stop_token& stop_;
  std::vector<Found> found_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> ended_{false};
};

}  // namespace

std::shared_ptr<const Counts> sample_counts(const io::Opener& opener,
                                            std::span<const std::string> shards,
                                            const std::stop_token& stop) {
  constexpr std::size_t kMaxThreads = 16;
  if (std::any_of(shards.begin(), shards.end(), io::is_stream_url)) return nullptr;
  const bool waits = std::any_of(shards.begin(), shards.end(), io::is_network_url);
  Lookup lookup(opener, shards, stop);
  if (lookup.step()) lookup.run(waits ? std::min(shards.size(), kMaxThreads) : 1);
  return lookup.counts();
}

}  // namespace millrace::wds

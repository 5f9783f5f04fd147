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

/// Shards are looked up in order, so all before the first one without a count have been.
class Lookup {
 public:
  Lookup(const io::Opener& opener, std::span<const std::string> shards, const std::stop_token& stop)
      : opener_(opener), shards_(shards), stop_(stop), found_(shards.size()) {}

  /// Looks up the next shard. Returns false once all are looked up or one has no count.
  bool step() {
    if (ended_) return false;
    const std::size_t shard = next_++;
    if (shard >= shards_.size()) return false;
    try {
      found_[shard].count = read_sample_count(opener_, index_url(shards_[shard]), stop_);
    } catch (...) {
      found_[shard].fault = std::current_exception();
    }
    if (!found_[shard].count && !is_damage(found_[shard])) ended_ = true;
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

  std::shared_ptr<const Counts> counts(const OnDamagedIndex& on_damaged) const {
    auto counts = std::make_shared<Counts>();
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const Found& found = found_[i];
      if (found.fault && !(on_damaged && is_damage(found))) std::rethrow_exception(found.fault);
      if (!found.fault && !found.count) return nullptr;
      const auto count = found.fault ? ask(shards_[i], found, on_damaged) : found.count;
      if (!count) counts = nullptr;
      if (counts) counts->push_back(*count);
    }
    return counts;
  }

 private:
  struct Found {
    std::optional<std::uint64_t> count;
    std::exception_ptr fault;
  };

  static bool is_damage(const Found& found) {
    if (!found.fault) return false;
    try {
      std::rethrow_exception(found.fault);
    } catch (const Error& error) {
      return error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kTruncated;
    } catch (...) {
      return false;
    }
  }

  static std::optional<std::uint64_t> ask(const std::string& shard, const Found& found,
                                          const OnDamagedIndex& on_damaged) {
    try {
      std::rethrow_exception(found.fault);
    } catch (const Error& error) {
      return on_damaged(shard, error);
    }
  }

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
                                            const std::stop_token& stop,
                                            const OnDamagedIndex& on_damaged) {
  constexpr std::size_t kMaxThreads = 16;
  if (std::any_of(shards.begin(), shards.end(), io::is_stream_url)) return nullptr;
  const bool waits = std::any_of(shards.begin(), shards.end(), io::is_network_url);
  Lookup lookup(opener, shards, stop);
  if (lookup.step()) lookup.run(waits ? std::min(shards.size(), kMaxThreads) : 1);
  return lookup.counts(on_damaged);
}

std::optional<std::uint64_t> samples_in_shard(const FaultPolicy& policy, const Error& fault,
                                              const io::Opener& opener, const std::string& url,
                                              const std::stop_token& stop) {
  if (policy.samples_of) {
    if (const auto samples = policy.samples_of(url)) return samples;
  }
  if (io::is_stream_url(url) || fault.code() == ErrorCode::kIo) return {};
  try {
    return read_sample_count(opener, index_url(url), stop);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    return {};
  }
}

}  // namespace millrace::wds

#include "wds/sample_counts.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <optional>

#include "io/base/text.h"
#include "io/base/threads.h"
#include "wds/parquet_shard.h"
#include "wds/row_table.h"
#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

using Counts = std::vector<std::uint64_t>;

/// What a shard says before its samples are read.
struct Stored {
  std::optional<std::uint64_t> count = {};
  std::string sha256 = {};
  std::vector<RowColumn> labels = {};  ///< a Parquet file's columns of numbers that have classes
};

/// From its index, or a Parquet file's footer; no count if there is no index.
Stored stored_in(const io::Opener& opener, const std::string& shard, const std::stop_token& stop) {
  if (!is_parquet(shard)) {
    auto head = read_index_head(opener, index_url(shard), stop);
    return head ? Stored{.count = head->count, .sha256 = std::move(head->sha256)} : Stored();
  }
  const auto table = open_parquet(opener, shard, stop);
  Stored stored{.count = num_rows(*table)};
  std::ranges::copy_if(table->columns(), std::back_inserter(stored.labels),
                       [](const RowColumn& column) { return !column.classes.empty(); });
  return stored;
}

/// Throws: Unsupported if a column of `own`, of the shard at `url`, counts other classes than the
/// one of that name in `first`.
void check_classes(const std::vector<RowColumn>& first, const std::vector<RowColumn>& own,
                   const std::string& url, const std::string& first_url) {
  for (const RowColumn& column : own)
    for (const RowColumn& known : first)
      if (column.name == known.name && column.classes != known.classes)
        throw Error(ErrorCode::kUnsupported,
                    "column " + printable(column.name) +
                        ": its numbers are of other classes than in " +
                        io::printable_url(stored_url(first_url)),
                    {.url = stored_url(url)});
}

/// Whether shards behind one without an index are looked up.
enum class AfterNone { kGoOn, kStop };

/// On the network.
constexpr std::size_t kMostAtOnce = 16;

/// Shards are looked up in order, so all before the first one without a count have been.
class Lookup {
 public:
  Lookup(const io::Opener& opener, std::span<const std::string> shards, const std::stop_token& stop,
         AfterNone after_none)
      : opener_(opener),
        shards_(shards),
        stop_(stop),
        after_none_(after_none),
        found_(shards.size()) {}

  /// Looks up the next shard. Returns false once all are looked up, one is at fault, or one that
  /// has no count ends the lookup.
  bool step() {
    if (ended_) return false;
    const std::size_t shard = next_++;
    if (shard >= shards_.size()) return false;
    try {
      if (!io::is_stream_url(shards_[shard]))
        found_[shard].stored = stored_in(opener_, shards_[shard], stop_);
    } catch (...) {
      found_[shard].fault = std::current_exception();
    }
    const bool none = !found_[shard].stored.count && !found_[shard].fault;
    if (none && after_none_ == AfterNone::kStop) ended_ = true;
    if (found_[shard].fault && !is_damage(found_[shard])) ended_ = true;
    return !ended_;
  }

  /// All of them, on this thread.
  void run() {
    while (step()) continue;
  }

  /// All of them, several at once. The first ones are asked for with the first, of which it is not
  /// known yet whether it has a count: where it has none, the others have none either.
  void run_on_network() {
    const std::size_t threads = std::min(shards_.size(), kMostAtOnce);
    std::atomic<std::ptrdiff_t> left{static_cast<std::ptrdiff_t>(threads)};
    run_on_threads(threads, [this, &left] {
      while (--left >= 0 && step()) continue;
    });
    if (!found_first()) return found_.assign(found_.size(), {});
    run_on_threads(threads, [this] { run(); });
  }

  std::vector<std::optional<std::uint64_t>> counts(const OnDamagedIndex& on_damaged) const {
    std::vector<std::optional<std::uint64_t>> counts(found_.size());
    std::size_t labelled = found_.size();  // the first that lists classes
    for (std::size_t i = 0; i < found_.size(); ++i) {
      const Found& found = found_[i];
      if (found.fault && !(on_damaged && is_damage(found))) std::rethrow_exception(found.fault);
      if (!found.fault && !found.stored.count && after_none_ == AfterNone::kStop) break;
      counts[i] = found.fault ? ask(shards_[i], found, on_damaged) : found.stored.count;
      if (labelled == found_.size() && !found.stored.labels.empty()) labelled = i;
      if (labelled < i)
        check_classes(found_[labelled].stored.labels, found.stored.labels, shards_[i],
                      shards_[labelled]);
    }
    return counts;
  }

  void tell(FirstIndexes& first) const {
    for (std::size_t i = 0; i < found_.size(); ++i)
      first.check(shards_[i], found_[i].stored.sha256);
  }

 private:
  bool found_first() const { return found_.front().stored.count || found_.front().fault; }

  struct Found {
    Stored stored;
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
  const AfterNone after_none_;
  std::vector<Found> found_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> ended_{false};
};

std::vector<std::optional<std::uint64_t>> look_up(
    const io::Opener& opener, std::span<const std::string> shards, const std::stop_token& stop,
    const OnDamagedIndex& on_damaged, AfterNone after_none, FirstIndexes* first = nullptr) {
  if (shards.empty()) return {};
  Lookup lookup(opener, shards, stop, after_none);
  if (std::any_of(shards.begin(), shards.end(), io::is_network_url))
    lookup.run_on_network();
  else
    lookup.run();
  if (first != nullptr) lookup.tell(*first);
  return lookup.counts(on_damaged);
}

}  // namespace

std::shared_ptr<const Counts> sample_counts(const io::Opener& opener,
                                            std::span<const std::string> shards,
                                            const std::stop_token& stop,
                                            const OnDamagedIndex& on_damaged) {
  if (std::any_of(shards.begin(), shards.end(), io::is_stream_url)) return nullptr;
  auto counts = std::make_shared<Counts>();
  for (const auto& count : look_up(opener, shards, stop, on_damaged, AfterNone::kStop)) {
    if (!count) return nullptr;
    counts->push_back(*count);
  }
  return counts;
}

std::vector<std::optional<std::uint64_t>> indexed_counts(const io::Opener& opener,
                                                         std::span<const std::string> shards,
                                                         const std::stop_token& stop,
                                                         const OnDamagedIndex& on_damaged,
                                                         FirstIndexes* first) {
  return look_up(opener, shards, stop, on_damaged, AfterNone::kGoOn, first);
}

std::optional<std::uint64_t> samples_in_shard(const FaultPolicy& policy, const Error& fault,
                                              const io::Opener& opener, const std::string& url,
                                              const std::stop_token& stop) {
  if (policy.samples_of) {
    if (const auto samples = policy.samples_of(url)) return samples;
  }
  if (io::is_stream_url(url) || fault.code() == ErrorCode::kIo) return {};
  try {
    return stored_in(opener, url, stop).count;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    return {};
  }
}

}  // namespace millrace::wds

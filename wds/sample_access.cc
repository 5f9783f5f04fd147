#include "wds/sample_access.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "io/base/check.h"
#include "io/base/for_each_on_threads.h"
#include "io/local_path.h"
#include "wds/detail/joiner.h"
#include "wds/outgrown_index.h"
#include "wds/parquet_shard.h"

namespace millrace::wds {
namespace {

constexpr std::size_t kAtOnce = 16;
// A reader looks at the header behind its last sample, which pax makes three blocks of.
constexpr std::uint64_t kNextHeader = 2048;

[[noreturn]] void no_places(const std::string& url, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, "samples cannot be read by their place: " + why,
              {.url = url});
}

/// Null if there is none, or a damaged one that the policy takes for none.
std::shared_ptr<const ShardIndex> index_of(const io::Opener& opener, const std::string& shard,
                                           const ContentsOptions& options) {
  const std::stop_token& stop = options.scan.stop;
  if (options.ledger == nullptr) return find_index(opener, shard, stop);
  bool again = false;
  try {
    auto index = find_index(opener, shard, stop, &again);
    if (again) options.ledger->count_refetched(index_url(shard));
    if (index || !options.ledger->policy().require_index) return index;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo || error.code() == ErrorCode::kCancelled) throw;
  }
  return usable_index(opener, shard, *options.ledger, stop);  // says what is wrong with it
}

/// The shards' indexes, several at a time; null where there is none.
std::vector<std::shared_ptr<const ShardIndex>> read_indexes(const io::Opener& opener,
                                                            std::span<const std::string> shards,
                                                            const ContentsOptions& options) {
  std::vector<std::shared_ptr<const ShardIndex>> found(shards.size());
  const bool fails =
      options.ledger == nullptr || options.ledger->policy().on_fault == OnFault::kFail;
  for_each_on_threads(shards.size(), kAtOnce, [&](std::size_t i) {
    StoredSize size(opener, shards[i], options.scan.stop);  // while the index comes
    found[i] = index_of(opener, shards[i], options);
    if (found[i])
      check_size(shards[i], *found[i], size.get(), fails ? IfShorter::kFault : IfShorter::kReadOn);
  });
  return found;
}

void check_places(const SetContents::Shard& shard) {
  if (shard.scan && shard.scan->damage)
    no_places(shard.url, "the shard is damaged, so mend it or leave it out: " +
                             std::string(shard.scan->damage->what()));
  // An unpacked stream that is longer than the file was packed.
  const bool packed = shard.index ? shard.index->bytes < shard.index->end : shard.scan->compressed;
  if (packed) no_places(shard.url, "the shard is compressed, so unpack it");
}

}  // namespace

std::uint64_t SetContents::Shard::offset_of(std::uint64_t sample) const {
  if (sample == count()) return index ? index->end : scan->end;
  return index ? index->samples[sample].offset : scan->offset_of(sample);
}

std::size_t SetContents::shard_of(std::uint64_t number) const {
  MILLRACE_DCHECK(number < count, "a sample's number is below their count");
  const auto after = std::upper_bound(
      shards.begin(), shards.end(), number,
      [](std::uint64_t wanted, const Shard& shard) { return wanted < shard.first; });
  return static_cast<std::size_t>(after - shards.begin()) - 1;
}

std::uint64_t SetContents::bytes_of(std::uint64_t number) const {
  const Shard& shard = shards[shard_of(number)];
  const std::uint64_t sample = number - shard.first;
  return shard.offset_of(sample + 1) - shard.offset_of(sample);
}

std::shared_ptr<const SetContents> find_contents(const io::Opener& opener,
                                                 std::span<const std::string> shards,
                                                 const ContentsOptions& options) {
  for (const std::string& url : shards) {
    if (io::is_read_once(url)) no_places(url, "it can be read only once");
    if (is_parquet(url))
      no_places(url, "Parquet is read by groups of rows; create --from-parquet makes tars of it");
  }
  std::vector<std::shared_ptr<const ShardIndex>> indexes(shards.size());
  if (options.indexed) indexes = read_indexes(opener, shards, options);
  std::vector<bool> wanted;
  wanted.reserve(indexes.size());
  for (const auto& index : indexes) wanted.push_back(index == nullptr);
  const bool missing = std::find(wanted.begin(), wanted.end(), true) != wanted.end();
  std::shared_ptr<const ShardScans> scans;
  if (missing && options.scanned) scans = scan_shards(opener, shards, wanted, options.scan);
  auto set = std::make_shared<SetContents>();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    SetContents::Shard shard{.url = shards[i], .index = indexes[i], .first = set->count};
    if (!shard.index && scans) shard.scan = (*scans)[i];
    if (!shard.index && !shard.scan)
      no_places(shard.url, "the shard has no index (millrace index), and is not scanned");
    check_places(shard);
    set->count += shard.count();
    set->shards.push_back(std::move(shard));
  }
  return set;
}

/// Neighbours in a shard.
struct SampleAccess::Run {
  std::size_t shard = 0;
  std::uint64_t first = 0;  // in the shard
  std::vector<std::size_t> places = {};
  std::optional<ShardReader> reader = {};
  std::optional<detail::Joiner> joiner = {};
  std::optional<Error> fault = {};
};

SampleAccess::SampleAccess(const io::Opener& opener, std::shared_ptr<const SetContents> set,
                           ShardOptions options, std::shared_ptr<const Joins> joins,
                           FaultLedger* ledger)
    : opener_(opener),
      set_(std::move(set)),
      options_(std::move(options)),
      joins_(std::move(joins)),
      ledger_(ledger) {
  MILLRACE_CHECK(!joins_ || ledger_, "joined shards need a ledger for their indexes' warnings");
}

Sample SampleAccess::sample(std::uint64_t number) const {
  Sample found;
  samples(std::span(&number, 1), [&](Result result) {
    if (result.fault != nullptr) throw Error(*result.fault);
    found = std::move(result.sample);
  });
  return found;
}

void SampleAccess::samples(std::span<const std::uint64_t> numbers,
                           const std::function<void(Result result)>& take) const {
  std::vector<Run> runs = runs_of(numbers);
  std::size_t opened = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    // An opened source has sent its request: the answers arrive beside each other.
    while (opened < std::min(runs.size(), i + kAtOnce)) open(runs[opened++]);
    read(runs[i], take);
    runs[i].reader.reset();
    runs[i].joiner.reset();
  }
}

std::vector<SampleAccess::Run> SampleAccess::runs_of(std::span<const std::uint64_t> numbers) const {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t place) { return numbers[place]; });
  std::vector<Run> runs;
  for (const std::size_t place : order) {
    const std::size_t shard = set_->shard_of(numbers[place]);
    const std::uint64_t sample = numbers[place] - set_->shards[shard].first;
    const bool next = !runs.empty() && runs.back().shard == shard &&
                      runs.back().first + runs.back().places.size() == sample;
    if (!next) runs.push_back({.shard = shard, .first = sample});
    runs.back().places.push_back(place);
  }
  return runs;
}

void SampleAccess::open(Run& run) const {
  const SetContents::Shard& shard = set_->shards[run.shard];
  ShardOptions options = options_;
  options.offset = shard.offset_of(run.first);
  options.expected_bytes =
      shard.offset_of(run.first + run.places.size()) - options.offset + kNextHeader;
  options.tar.buffer_bytes = static_cast<std::size_t>(
      std::min<std::uint64_t>(options.expected_bytes, options.tar.buffer_bytes));
  options.index = shard.index;
  options.max_samples = shard.index ? run.places.size() : 0;
  try {
    if (joins_) run.joiner.emplace(*joins_, shard.url, opener_, options_, ledger_);
    run.reader.emplace(opener_, shard.url, options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    run.fault = error;
  }
}

void SampleAccess::read(Run& run, const std::function<void(Result result)>& take) const {
  for (const std::size_t place : run.places) {
    Result result{.place = place};
    try {
      if (run.reader && !run.reader->next(result.sample))
        throw Error(ErrorCode::kTruncated, "shard ends before its samples do",
                    {.url = set_->shards[run.shard].url});
      if (run.reader) run.fault.reset();
      if (run.reader && run.joiner) run.joiner->complete(result.sample);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      run.fault = error;
      if (!run.reader->can_continue()) run.reader.reset();
    }
    if (run.fault) result.fault = &*run.fault;
    take(std::move(result));
  }
}

}  // namespace millrace::wds

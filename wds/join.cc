#include "wds/join.h"

#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "io/local_path.h"
#include "wds/outgrown_index.h"
#include "wds/shard_scan.h"

namespace millrace::wds {
namespace {

constexpr std::size_t kTwice = static_cast<std::size_t>(-1);

std::shared_ptr<const ShardIndex> find_index_of(const io::Opener& opener, const std::string& url,
                                                const std::stop_token& stop, FaultLedger* ledger) {
  return ledger != nullptr ? usable_index(opener, url, *ledger, stop)
                           : find_index(opener, url, stop);
}

std::shared_ptr<const JoinedContents> read_contents(const io::Opener& opener,
                                                    const std::string& url,
                                                    const ShardOptions& options,
                                                    FaultLedger* ledger) {
  StoredSize size(opener, url, options.stop);  // while the index comes
  if (auto index = find_index_of(opener, url, options.stop, ledger)) {
    check_size(url, *index, size.get(), IfShorter::kReadOn);
    return std::make_shared<const JoinedContents>(std::move(index), true);
  }
  ShardOptions whole = options;
  whole.suffixes.clear();
  whole.index = nullptr;
  whole.offset = 0;
  return std::make_shared<const JoinedContents>(
      std::make_shared<const ShardIndex>(scan_contents(opener, url, whole)), false);
}

}  // namespace

JoinedContents::JoinedContents(std::shared_ptr<const ShardIndex> index, bool is_index)
    : samples_(std::move(index)), is_index_(is_index) {
  by_key_.reserve(samples_->samples.size());
  for (std::size_t i = 0; i < samples_->samples.size(); ++i) {
    const auto [entry, is_new] = by_key_.emplace(samples_->samples[i].key, i);
    if (!is_new) entry->second = kTwice;
  }
}

const IndexedSample* JoinedContents::find(const std::string& key) const {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  if (found->second == kTwice)
    throw Error(ErrorCode::kCorrupt, "a joined shard has several samples with this key",
                {.key = key});
  return &samples_->samples[found->second];
}

Joins::Joins(std::span<const std::string> shards, std::span<const std::vector<std::string>> lists,
             Keep keep)
    : keep_(keep) {
  for (const std::vector<std::string>& list : lists) {
    require(list.size() == shards.size(),
            counted(list.size(), "shard") + " cannot complete " + counted(shards.size(), "shard") +
                ": a joined list has one shard for each, in the same order");
    for (const std::string& url : list) {
      require(io::can_reopen(url),
              "shards are joined by their keys, and a pipe cannot be searched: " +
                  io::printable_url(url));
      known_.try_emplace(url, std::make_unique<Known>());
    }
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    std::vector<std::string> partners;
    for (const std::vector<std::string>& list : lists) partners.push_back(list[i]);
    const auto [entry, is_new] = of_.try_emplace(shards[i], partners);
    require(
        is_new || entry->second == partners,
        "a shard that occurs twice is joined with different ones: " + io::printable_url(shards[i]));
  }
}

const std::vector<std::string>& Joins::of(const std::string& url) const {
  const auto found = of_.find(url);
  MILLRACE_CHECK(found != of_.end(), "the shard is one of those that were joined");
  return found->second;
}

std::shared_ptr<const JoinedContents> Joins::contents(const io::Opener& opener,
                                                      const std::string& url,
                                                      const ShardOptions& options,
                                                      FaultLedger* ledger) const {
  const auto found = known_.find(url);
  MILLRACE_CHECK(found != known_.end(), "the shard is one of those that complete others");
  Known& known = *found->second;
  const MutexLock lock(known.mutex);
  if (auto contents = known.contents.lock()) return contents;
  auto contents = read_contents(opener, url, options, ledger);
  known.contents = contents;
  if (keep_ == Keep::kAll) known.kept = contents;
  return contents;
}

}  // namespace millrace::wds

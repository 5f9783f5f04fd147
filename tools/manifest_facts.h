// ManifestFacts: what manifests say about shards.
//
//   ManifestFacts facts;
//   facts.add(read_.lists.entries(read_.specs));               // the first entry for a shard wins
//   facts.find_beside(shards, *opener, ledger);
//   if (const auto* listed = facts.of(url)) ...
//
// Threads: const members may be called from many threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/base/error.h"
#include "io/base/thread_annotations.h"
#include "io/opener.h"
#include "wds/fault_ledger.h"
#include "wds/manifest.h"

namespace millrace::tools {

class ManifestFacts {
 public:
  /// Keeps the entry of each shard, unless one is known already or it is empty.
  void add(const std::vector<wds::ManifestShard>& shards);
  /// The same for the manifest at `url`. One that contradicts itself is reported to the ledger.
  void add(const wds::Manifest& manifest, const std::string& url, wds::FaultLedger& ledger);
  /// Reads the manifests of shards without an entry, from where `millrace index` would have written
  /// them. One that cannot be read is reported to the ledger; a missing one is not.
  void find_beside(std::span<const std::string> shards, const io::Opener& opener,
                   wds::FaultLedger& ledger);

  /// Of all that was read: local shards with an entry that are not there, sorted.
  std::vector<std::string> missing() const;
  /// Of `shards` those without an entry whose manifest beside them has one of another.
  std::vector<std::string> unlisted(std::span<const std::string> shards) const;

  /// The entry of the shard at `url`; null if there is none.
  const wds::ManifestShard* of(const std::string& url) const;

 private:
  std::unordered_map<std::string, wds::ManifestShard> by_place_;
};

/// The actual facts about a shard.
struct ShardFacts {
  std::optional<std::uint64_t> samples = {};  ///< nullopt if it could not be read to its end
  std::optional<std::uint64_t> bytes = {};    ///< nullopt if they were not counted
  std::string sha256 = {};
};

/// A Corrupt or Truncated Error, without a url, for each difference between `found` and `listed`.
std::vector<Error> differences(const wds::ManifestShard& listed, const ShardFacts& found);

/// ManifestFacts of any shards, to count the samples that are lost. Threads: every member may be
/// called from any thread.
class ListedSamples {
 public:
  /// Adds the entries of a manifest that the user named.
  void add(const std::vector<wds::ManifestShard>& shards);
  /// The count from those, or from the manifest next to a local shard, which is read now. Nullopt
  /// if no manifest has it, or it cannot be read.
  std::optional<std::uint64_t> of(const std::string& url, const io::Opener& opener);

 private:
  Mutex mutex_;
  ManifestFacts facts_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::tools

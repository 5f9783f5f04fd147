// ManifestFacts: what manifests say of the shards that are verified.
//
//   ManifestFacts facts;
//   facts.add(read_.listed_shards());               // what is known first, counts
//   facts.find_beside(shards, *opener, ledger);
//   if (const auto* listed = facts.of(url)) ...
//
// Threads: const members from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/base/error.h"
#include "io/opener.h"
#include "wds/fault_ledger.h"
#include "wds/manifest.h"

namespace millrace::tools {

class ManifestFacts {
 public:
  /// Keeps what is said of each shard, unless it is known already or nothing is said.
  void add(const std::vector<wds::ManifestShard>& shards);
  /// The same for the manifest at `url`. One that contradicts itself is the ledger's fault.
  void add(const wds::Manifest& manifest, const std::string& url, wds::FaultLedger& ledger);
  /// Reads the manifests of those shards that nothing is known of, where `millrace index` would
  /// have put them. One that cannot be read is the ledger's fault; that there is none is not.
  void find_beside(std::span<const std::string> shards, const io::Opener& opener,
                   wds::FaultLedger& ledger);

  /// Null when no manifest says anything.
  const wds::ManifestShard* of(const std::string& url) const;

 private:
  std::unordered_map<std::string, wds::ManifestShard> by_place_;
};

/// What was found in a shard.
struct ShardFacts {
  std::optional<std::uint64_t> samples = {};  ///< nothing when it could not be read to its end
  std::optional<std::uint64_t> bytes = {};    ///< nothing when they were not counted
  std::string sha256 = {};
};

/// Corrupt, or Truncated, for each thing in which `found` is not as `listed`; without a url.
std::vector<Error> differences(const wds::ManifestShard& listed, const ShardFacts& found);

}  // namespace millrace::tools

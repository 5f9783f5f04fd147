#include "tools/manifest_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>

#include "io/local_path.h"
#include "tools/index/index_place.h"
#include "wds/parquet_shard.h"

namespace millrace::tools {
namespace {

// The same text for all ways to name a shard: "a.tar", "./a.tar", "file:///d/a.tar".
std::string place_of(const std::string& shard) {
  const std::string url = wds::stored_url(shard);
  const auto path = io::local_path(url);
  if (!path) return io::printable_url(url);
  return std::filesystem::absolute(*path).lexically_normal().string();
}

// Hexadecimal digits may be upper case in a manifest made elsewhere.
bool same_digits(const std::string& a, const std::string& b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

void ManifestFacts::add(const std::vector<wds::ManifestShard>& shards) {
  for (const wds::ManifestShard& shard : shards) {
    if (shard.samples || shard.bytes || !shard.sha256.empty())
      by_place_.emplace(place_of(shard.url), shard);
  }
}

void ManifestFacts::add(const wds::Manifest& manifest, const std::string& url,
                        wds::FaultLedger& ledger) {
  add(manifest.shards);
  std::uint64_t sum = 0;
  for (const wds::ManifestShard& shard : manifest.shards) {
    if (!shard.samples) return;
    sum += *shard.samples;
  }
  if (!manifest.samples || *manifest.samples == sum) return;
  ledger.report(
      Error(ErrorCode::kCorrupt,
            fmt::format("manifest: its shards have {} samples, it says {}", sum, *manifest.samples),
            {.url = url}),
      0);
}

void ManifestFacts::find_beside(std::span<const std::string> shards, const io::Opener& opener,
                                wds::FaultLedger& ledger) {
  std::unordered_set<std::string> looked_for;
  for (const std::string& shard : shards) {
    if (io::is_stream_url(shard) || of(shard) != nullptr) continue;
    const std::string manifest = IndexPlaces().manifest_path({shard});
    if (!looked_for.insert(manifest).second) continue;
    try {
      add(wds::read_manifest(opener, manifest), manifest, ledger);
    } catch (const Error& fault) {
      if (!cannot_be_seen(fault)) ledger.report(fault, 0);
    }
  }
}

std::vector<std::string> ManifestFacts::unlisted(std::span<const std::string> shards) const {
  std::unordered_set<std::string> known;  // manifests
  for (const std::string& shard : shards)
    if (of(shard) != nullptr) known.insert(IndexPlaces().manifest_path({shard}));
  std::vector<std::string> unlisted;
  for (const std::string& shard : shards)
    if (!io::is_stream_url(shard) && of(shard) == nullptr &&
        known.contains(IndexPlaces().manifest_path({shard})))
      unlisted.push_back(shard);
  return unlisted;
}

std::vector<std::string> ManifestFacts::missing() const {
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const auto& [place, shard] : by_place_)
    if (io::local_path(shard.url) && !std::filesystem::exists(place, ignored))
      missing.push_back(shard.url);
  std::sort(missing.begin(), missing.end());
  return missing;
}

const wds::ManifestShard* ManifestFacts::of(const std::string& url) const {
  const auto found = io::is_stream_url(url) ? by_place_.end() : by_place_.find(place_of(url));
  return found == by_place_.end() ? nullptr : &found->second;
}

std::vector<Error> differences(const wds::ManifestShard& listed, const ShardFacts& found) {
  std::vector<Error> all;
  const auto differs = [&](ErrorCode code, const std::string& has, const std::string& says) {
    all.emplace_back(code, fmt::format("shard has {}, its manifest says {}", has, says));
  };
  if (listed.samples && found.samples && *listed.samples != *found.samples)
    differs(ErrorCode::kCorrupt, fmt::format("{} samples", *found.samples),
            std::to_string(*listed.samples));
  if (!found.bytes) return all;
  if (listed.bytes && *listed.bytes != *found.bytes) {
    differs(*found.bytes < *listed.bytes ? ErrorCode::kTruncated : ErrorCode::kCorrupt,
            fmt::format("{} bytes", *found.bytes), std::to_string(*listed.bytes));
  } else if (!listed.sha256.empty() && !same_digits(listed.sha256, found.sha256)) {
    differs(ErrorCode::kCorrupt, "SHA-256 " + found.sha256, listed.sha256);
  }
  return all;
}

void ListedSamples::add(const std::vector<wds::ManifestShard>& shards) {
  const MutexLock lock(mutex_);
  facts_.add(shards);
}

std::optional<std::uint64_t> ListedSamples::of(const std::string& url, const io::Opener& opener) {
  const MutexLock lock(mutex_);
  if (facts_.of(url) == nullptr && io::local_path(url)) {
    wds::FaultLedger ignored({.on_fault = wds::OnFault::kSkip});
    facts_.find_beside(std::span(&url, 1), opener, ignored);
  }
  const wds::ManifestShard* listed = facts_.of(url);
  return listed == nullptr ? std::nullopt : listed->samples;
}

}  // namespace millrace::tools

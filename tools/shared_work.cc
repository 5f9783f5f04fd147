#include "tools/shared_work.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "wds/manifest.h"

namespace millrace::tools {

std::vector<std::string> own_shards(const std::vector<std::string>& shards,
                                    const Topology& topology) {
  std::vector<std::string> own;
  for (auto i = static_cast<std::size_t>(topology.process); i < shards.size();
       i += static_cast<std::size_t>(topology.processes))
    own.push_back(shards[i]);
  return own;
}

std::vector<nlohmann::json> of_processes(trainer::Cluster& cluster, const nlohmann::json& own) {
  const std::vector<std::uint8_t> packed = nlohmann::json::to_cbor(own);
  std::vector<nlohmann::json> all;
  for (const auto& bytes : cluster.all_gather(std::as_bytes(std::span(packed)))) {
    const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    all.push_back(nlohmann::json::from_cbor(data, data + bytes.size()));
  }
  return all;
}

std::vector<nlohmann::json> in_shard_order(trainer::Cluster& cluster,
                                           const std::vector<nlohmann::json>& own) {
  const auto all = of_processes(cluster, own);
  std::size_t count = 0;
  for (const nlohmann::json& one : all) count += one.size();
  std::vector<nlohmann::json> ordered;
  for (std::size_t i = 0; i < count; ++i) ordered.push_back(all[i % all.size()].at(i / all.size()));
  return ordered;
}

std::vector<wds::ShardSummary> all_summaries(trainer::Cluster& cluster,
                                             const std::vector<wds::ShardSummary>& own) {
  std::vector<nlohmann::json> packed;
  packed.reserve(own.size());
  for (const wds::ShardSummary& shard : own)
    packed.push_back({shard.url, shard.samples, shard.bytes, shard.sha256});
  std::vector<wds::ShardSummary> all;
  for (const nlohmann::json& one : in_shard_order(cluster, packed))
    all.push_back(
        {.url = one.at(0), .samples = one.at(1), .bytes = one.at(2), .sha256 = one.at(3)});
  return all;
}

void write_set_manifest(const io::Opener& opener, const std::vector<wds::ShardSummary>& shards,
                        const std::string& path, const wds::StoredPictures& pictures) {
  wds::Manifest manifest;
  manifest.pictures = pictures;
  for (const wds::ShardSummary& shard : shards)
    manifest.shards.push_back(
        {.url = shard.url, .samples = shard.samples, .bytes = shard.bytes, .sha256 = shard.sha256});
  wds::write_manifest(manifest, path, io::Replace::kAtomically, &opener);
}

}  // namespace millrace::tools

// ShardLists: the shards that specs name, with what manifests say about them.
//
//   ShardLists lists(network);
//   if (lists.are_known(specs)) ...        // without reading anything from the network
//   const auto shards = lists.urls(specs);
//   const auto others = lists.joined(joins, specs);
//
// Specs are expanded once per run: a folder may change in between, and a manifest costs a round
// trip. Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/manifest_facts.h"
#include "tools/network_options.h"
#include "wds/manifest.h"

namespace millrace::tools {

class ShardLists {
 public:
  /// `network` is borrowed: what manifests and folders on the network are read with.
  explicit ShardLists(const NetworkOptions& network) : network_(network) {}

  /// Whether the shards are known without reading a manifest or a listing from the network.
  bool are_known(const std::vector<std::string>& specs) const;
  /// The shards' urls, in order. Throws: as wds::list_shards().
  std::vector<std::string> urls(const std::vector<std::string>& specs) const;
  /// The same with what the specs' manifests say about them.
  const std::vector<wds::ManifestShard>& entries(const std::vector<std::string>& specs) const;
  /// Of each of `specs`, the shards that complete those of the specs `completed`. Throws:
  /// InvalidArgument if there are not as many, or if they are pipes.
  std::vector<std::vector<std::string>> joined(const std::vector<std::string>& specs,
                                               const std::vector<std::string>& completed) const;
  /// How many samples a shard has, from the manifests that the specs named, or that are next to
  /// local shards. Threads: any, also when these lists are gone.
  std::function<std::optional<std::uint64_t>(const std::string& url)> samples_of() const;

 private:
  const NetworkOptions& network_;
  mutable std::map<std::vector<std::string>, std::vector<wds::ManifestShard>> expanded_;
  std::shared_ptr<ListedSamples> listed_ = std::make_shared<ListedSamples>();
};

}  // namespace millrace::tools

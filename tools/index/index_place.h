// Where the indexes and the manifest of a set of shards go.
#pragma once

#include <string>
#include <vector>

namespace millrace::tools {

struct IndexPlaces {
  /// A folder for all of them; empty: beside each shard.
  std::string folder = {};
  /// The manifest; empty: beside the first shard, or in `folder`.
  std::string manifest = {};

  /// Throws: InvalidArgument when shards that are not local have no folder to go to, or two shards
  /// would share an index.
  void check(const std::vector<std::string>& shards) const;
  /// The path of `shard` less its query string, in `folder` where there is one.
  std::string beside(const std::string& shard) const;
  std::string index_path(const std::string& shard) const { return beside(shard) + ".index.json"; }
  /// DALI's name for it: the last extension becomes .idx.
  std::string dali_path(const std::string& shard) const;
  /// "train-000000.tar" has "train-manifest.json".
  std::string manifest_path(const std::vector<std::string>& shards) const;
};

}  // namespace millrace::tools

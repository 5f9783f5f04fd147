// Where the indexes and the manifest of a set of shards are written.
#pragma once

#include <string>
#include <vector>

#include "io/opener.h"

namespace millrace::tools {

struct IndexPlaces {
  /// A folder for all of them; empty: next to each shard.
  std::string folder = {};
  /// The manifest's path; empty: each set's own, next to its first shard, or in `folder`.
  std::string manifest = {};

  /// Throws: InvalidArgument if shards lie neither on disk nor in a store that lists its objects
  /// and there is no `folder`, or two shards would share an index.
  void check(const std::vector<std::string>& shards, const io::Opener& opener) const;
  /// The path of `shard` without its query string, in `folder` if that is set.
  std::string beside(const std::string& shard) const;
  std::string index_path(const std::string& shard) const { return beside(shard) + ".index.json"; }
  /// DALI's name for the index: the last extension becomes .idx.
  std::string dali_path(const std::string& shard) const;
  /// "train-000000.tar" has "train-manifest.json".
  std::string manifest_path(const std::string& shard) const;
};

}  // namespace millrace::tools

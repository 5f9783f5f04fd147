#include "tools/index/index_place.h"

#include <filesystem>
#include <unordered_set>

#include "io/base/error.h"
#include "io/local_path.h"
#include "io/opener.h"
#include "tools/label_map.h"

namespace millrace::tools {

void IndexPlaces::check(const std::vector<std::string>& shards, const io::Opener& opener) const {
  std::unordered_set<std::string> taken;
  for (const std::string& shard : shards) {
    if (io::is_stream_url(shard))
      throw Error(ErrorCode::kInvalidArgument, "a pipe cannot have an index: " + shard);
    if (folder.empty() && !io::local_path(shard) && !opener.can_list(shard))
      throw Error(ErrorCode::kInvalidArgument, "where is the index of " + io::printable_url(shard) +
                                                   " to go? Give --output DIR");
    if (!taken.insert(index_path(shard)).second)
      throw Error(ErrorCode::kInvalidArgument,
                  "two shards would have the index " + index_path(shard));
  }
}

std::string IndexPlaces::beside(const std::string& shard) const {
  std::string path = io::local_path(shard).value_or(io::printable_url(shard));
  if (folder.empty()) return path;
  return (std::filesystem::path(folder) / std::filesystem::path(path).filename()).string();
}

std::string IndexPlaces::dali_path(const std::string& shard) const {
  return std::filesystem::path(beside(shard)).replace_extension(".idx").string();
}

std::string IndexPlaces::manifest_path(const std::string& shard) const {
  if (!manifest.empty()) return manifest;
  constexpr std::string_view kLabels = "classes.txt";
  std::string path = label_map_url(beside(shard));
  return path.replace(path.size() - kLabels.size(), kLabels.size(), "manifest.json");
}

}  // namespace millrace::tools

#include "wds/found_shards.h"

#include <algorithm>

#include "wds/sample_access.h"

namespace millrace::wds {

std::size_t FoundShards::num_indexed() const {
  if (!counts) return 0;
  if (contents) {
    const auto indexed = [](const auto& shard) { return shard.index != nullptr; };
    return static_cast<std::size_t>(std::ranges::count_if(contents->shards, indexed));
  }
  if (!scans) return counts->size();
  return static_cast<std::size_t>(std::ranges::count(*scans, nullptr));
}

}  // namespace millrace::wds

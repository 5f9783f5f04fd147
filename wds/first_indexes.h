// FirstIndexes: of each shard the index that a run read first, so that one that is replaced
// meanwhile is noticed. A run that is resumed compares its data with the checkpoint's; one that
// goes on would train on whatever lies there now.
//
// Threads: any. Buffers: 32 bytes for each shard.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <unordered_map>

#include "io/base/thread_annotations.h"
#include "wds/shard_index.h"

namespace millrace::wds {

class FirstIndexes {
 public:
  /// Throws: Io if `index` is of another content than the first one of the shard at `url`; an index
  /// without a SHA-256 passes.
  void check(const std::string& url, const ShardIndex& index);

 private:
  Mutex mutex_;
  std::unordered_map<std::size_t, std::array<char, 32>> marks_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::wds

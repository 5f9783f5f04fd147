// FirstIndexes: of each shard the content that the index says which a run read first, so that a
// shard that is replaced meanwhile is noticed. A run that is resumed compares its data with the
// checkpoint's; one that goes on would train on whatever lies there now.
//
// Threads: any. Buffers: a digest of 64 digits for each shard.
#pragma once

#include <string>
#include <unordered_map>

#include "io/base/thread_annotations.h"

namespace millrace::wds {

class FirstIndexes {
 public:
  /// `sha256`: of the shard at `url`, by its index; one without passes. Throws: Io if it is not the
  /// first one.
  void check(const std::string& url, const std::string& sha256);
  /// The first one; empty: none was read.
  std::string sha256_of(const std::string& url) const;

 private:
  mutable Mutex mutex_;
  std::unordered_map<std::string, std::string> first_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::wds

// ListedSamples: the number of samples of shards by their manifests, to count what is lost.
//
// Threads: every member may be called from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/base/thread_annotations.h"
#include "io/opener.h"
#include "tools/verify/manifest_facts.h"
#include "wds/manifest.h"

namespace millrace::tools {

class ListedSamples {
 public:
  /// Adds the entries of a manifest that the user named.
  void add(const std::vector<wds::ManifestShard>& shards);
  /// The count from those, or from the manifest next to a local shard, which is read now. Nullopt
  /// if no manifest has it, or it cannot be read.
  std::optional<std::uint64_t> of(const std::string& url, const io::Opener& opener);

 private:
  Mutex mutex_;
  ManifestFacts facts_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::tools

// ListedSamples: how many samples shards have, as manifests say, for the account of what is lost.
//
// Threads: any.
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
  /// What a manifest named by the user says.
  void add(const std::vector<wds::ManifestShard>& shards);
  /// By those, or by the manifest beside a local shard, which is read now. Nothing when no manifest
  /// says, or it cannot be read.
  std::optional<std::uint64_t> of(const std::string& url, const io::Opener& opener);

 private:
  Mutex mutex_;
  ManifestFacts facts_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::tools

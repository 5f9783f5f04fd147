#include "tools/listed_samples.h"

#include <span>

#include "io/local_path.h"
#include "wds/fault_ledger.h"

namespace millrace::tools {

void ListedSamples::add(const std::vector<wds::ManifestShard>& shards) {
  const MutexLock lock(mutex_);
  facts_.add(shards);
}

std::optional<std::uint64_t> ListedSamples::of(const std::string& url, const io::Opener& opener) {
  const MutexLock lock(mutex_);
  if (facts_.of(url) == nullptr && io::local_path(url)) {
    wds::FaultLedger ignored({.on_fault = wds::OnFault::kSkip});
    facts_.find_beside(std::span(&url, 1), opener, ignored);
  }
  const wds::ManifestShard* listed = facts_.of(url);
  return listed == nullptr ? std::nullopt : listed->samples;
}

}  // namespace millrace::tools

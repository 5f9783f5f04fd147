// How many samples some shards have, as far as manifests say without reading the shards.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "wds/fault_ledger.h"

namespace millrace::tools {

/// Of all of them, by ReadOptions::policy(); 0 where one is not known.
inline std::uint64_t known_samples(const wds::FaultPolicy& policy,
                                   std::span<const std::string> shards) {
  std::uint64_t all = 0;
  for (const std::string& shard : shards) {
    const auto samples = policy.samples_of(shard);
    if (!samples) return 0;
    all += *samples;
  }
  return all;
}

}  // namespace millrace::tools

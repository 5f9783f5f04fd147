// scan: visits every sample of a list of shards in order, under the fault policy.
//
//   scan({.shards = urls, .opener = *opener, .ledger = ledger, .stop = stop},
//        [&](const wds::Sample& sample) { ...; return true; });
//
// Order: the shards', and in each shard the samples'. Threads: one at a time.
#pragma once

#include <functional>
#include <span>
#include <stop_token>
#include <string>

#include "io/opener.h"
#include "wds/fault_ledger.h"
#include "wds/sample.h"

namespace millrace::tools {

struct ScanInput {
  std::span<const std::string> shards;
  const io::Opener& opener;
  wds::FaultLedger& ledger;
  std::stop_token stop = {};
  /// Compares the samples with the shards' indexes, where there are any.
  bool indexed = false;
};

/// Calls `each` with every sample until it returns false. Throws: Error, by the policy; NotFound if
/// every sample was skipped; Cancelled.
void scan(const ScanInput& input, const std::function<bool(const wds::Sample&)>& each);

/// `policy` for a pass before the one that counts: what is skipped in it is not logged, and still
/// is when it is skipped again.
wds::FaultPolicy unlogged(wds::FaultPolicy policy);

}  // namespace millrace::tools

#include "tools/verify/set_report.h"

#include <utility>

namespace millrace::tools {

void SetReport::add(ShardReport shard) {
  ++shards;
  Findings::add(shard);
  add(std::move(shard.faults));
  classes.add(shard.classes);
  add_keys(shard);
}

void SetReport::add(std::vector<wds::FaultLedger::Entry> more_faults) {
  num_faults += more_faults.size();
  for (wds::FaultLedger::Entry& fault : more_faults)
    if (faults.size() < kMaxFaults) faults.push_back(std::move(fault));
}

void SetReport::add_keys(const ShardReport& shard) {
  const std::uint64_t here = urls_.size();
  urls_.push_back(shard.url);
  for (const std::string& key : shard.keys) {
    const auto before = keys_.insert(key, here);
    if (!before || *before == here) continue;
    ++num_duplicates;
    if (duplicates.size() < kMaxDuplicates)
      duplicates.push_back({.key = key, .first_url = urls_[*before], .url = shard.url});
  }
}

}  // namespace millrace::tools

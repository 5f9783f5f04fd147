#include "tools/verify/set_report.h"

#include <utility>

namespace millrace::tools {

void SetReport::add(ShardReport shard) {
  ++shards;
  indexed += shard.indexed ? 1 : 0;
  emitted += shard.emitted;
  skipped += shard.skipped;
  unknown_shards += shard.unknown_shards;
  unguarded += shard.unguarded ? 1 : 0;
  warnings += shard.warnings;
  refetched += shard.refetched;
  untidy.add(shard.untidy);
  unequal_sizes.add(shard.unequal_sizes);
  interleaved += shard.interleaved;
  in_manifest += shard.in_manifest ? 1 : 0;
  if (shard.stored != wds::StoredPictures()) ++stored[{shard.stored.jpeg, shard.stored.image}];
  add(std::move(shard.faults));
  for (const auto& [suffix, sizes] : shard.fields) fields[suffix].add(sizes);
  for (const auto& [suffixes, set] : shard.field_sets) {
    FieldSet& all = field_sets[suffixes];
    if (all.samples == 0) all.first_key = set.first_key;
    all.samples += set.samples;
  }
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

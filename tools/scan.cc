#include "tools/scan.h"

#include <optional>

#include "io/base/error.h"
#include "wds/shard_reader.h"

namespace millrace::tools {
namespace {

enum class After { kGoOn, kNextShard, kEnd };

/// What to do after `fault`. Throws it when the policy says fail.
After after_fault(const Error& fault, const ScanInput& input, bool can_continue) {
  if (fault.code() == ErrorCode::kCancelled) throw fault;
  if (input.ledger.report(fault) == wds::OnFault::kStop) return After::kEnd;
  return can_continue ? After::kGoOn : After::kNextShard;
}

After scan_sample(wds::ShardReader& reader, const ScanInput& input,
                  const std::function<bool(const wds::Sample&)>& each) {
  wds::Sample sample;
  try {
    if (!reader.next(sample)) return After::kNextShard;
  } catch (const Error& fault) {
    return after_fault(fault, input, reader.can_continue());
  }
  input.ledger.count_emitted(1);
  return each(sample) ? After::kGoOn : After::kEnd;
}

After scan_shard(const std::string& url, const ScanInput& input,
                 const std::function<bool(const wds::Sample&)>& each) {
  const wds::FaultPolicy& policy = input.ledger.policy();
  std::optional<wds::ShardReader> reader;
  try {
    reader.emplace(input.opener, url,
                   wds::ShardOptions{.tar = {.concatenated = policy.concatenated},
                                     .lenient = policy.lenient,
                                     .stop = input.stop});
  } catch (const Error& fault) {
    return after_fault(fault, input, false);
  }
  After after = After::kGoOn;
  while (after == After::kGoOn) after = scan_sample(*reader, input, each);
  return after;
}

}  // namespace

void scan(const ScanInput& input, const std::function<bool(const wds::Sample&)>& each) {
  for (const std::string& url : input.shards)
    if (scan_shard(url, input, each) == After::kEnd) return;
}

}  // namespace millrace::tools

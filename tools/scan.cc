#include "tools/scan.h"

#include <algorithm>
#include <optional>

#include "io/base/error.h"
#include "wds/sample_counts.h"
#include "wds/shard_index.h"
#include "wds/shard_reader.h"

namespace millrace::tools {
namespace {

enum class After { kGoOn, kNextShard, kEnd };

/// One shard, from its first sample to its last.
class ShardScan {
 public:
  ShardScan(const std::string& url, const ScanInput& input) : url_(url), input_(input) {}

  After run(const std::function<bool(const wds::Sample&)>& each) {
    After after = After::kGoOn;
    try {
      open();
    } catch (const Error& fault) {
      after = after_fault(fault);
    }
    while (after == After::kGoOn) after = step(each);
    if (reader_) input_.ledger.warn_of(reader_->warnings(), url_);
    if (reader_) input_.ledger.count_refetched(url_, reader_->refetched());
    return after;
  }

 private:
  void open() {
    const wds::FaultPolicy& policy = input_.ledger.policy();
    wds::ShardOptions options{.lenient = policy.lenient, .stop = input_.stop};
    if (policy.concatenated) options.tar.behind_end = wds::BehindEnd::kRead;
    if (policy.require_index || input_.indexed)
      options.index = wds::usable_index(input_.opener, url_, input_.ledger, input_.stop);
    indexed_ = options.index != nullptr;
    reader_.emplace(input_.opener, url_, options);
  }

  After step(const std::function<bool(const wds::Sample&)>& each) {
    wds::Sample sample;
    try {
      if (!reader_->next(sample)) return After::kNextShard;
    } catch (const Error& fault) {
      return after_fault(fault);
    }
    ++met_;
    input_.ledger.count_emitted(1);
    return each(sample) ? After::kGoOn : After::kEnd;
  }

  /// What to do after `fault`. Throws it if the policy is to fail.
  After after_fault(const Error& fault) {
    const bool goes_on = reader_ && reader_->can_continue();
    const wds::OnFault then = goes_on ? input_.ledger.report(fault, reader_->lost_samples())
                                      : input_.ledger.report_shard(fault, lost_samples(fault));
    met_ += goes_on ? reader_->lost_samples() : 0;
    if (then == wds::OnFault::kStop) return After::kEnd;
    return goes_on ? After::kGoOn : After::kNextShard;
  }

  std::optional<std::uint64_t> lost_samples(const Error& fault) const {
    const wds::FaultPolicy& policy = input_.ledger.policy();
    if (policy.on_fault == wds::OnFault::kFail || fault.code() == ErrorCode::kCancelled) return {};
    if (reader_ && indexed_) return reader_->lost_samples();
    const auto all = wds::samples_in_shard(policy, fault, input_.opener, url_, input_.stop);
    if (!all) return {};
    return *all - std::min(*all, met_);
  }

  const std::string& url_;
  const ScanInput& input_;
  std::optional<wds::ShardReader> reader_;
  bool indexed_ = false;
  std::uint64_t met_ = 0;
};

}  // namespace

void scan(const ScanInput& input, const std::function<bool(const wds::Sample&)>& each) {
  for (const std::string& url : input.shards)
    if (ShardScan(url, input).run(each) == After::kEnd) break;
  if (input.ledger.emitted() == 0 && input.ledger.skipped() > 0)
    input.ledger.check_not_empty("what was read");
}

wds::FaultPolicy unlogged(wds::FaultPolicy policy) {
  policy.said = nullptr;
  return policy;
}

}  // namespace millrace::tools

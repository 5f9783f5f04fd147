#include "wds/fault_ledger.h"

#include <utility>

namespace millrace::wds {
namespace {

// Below this many samples a rate says nothing.
constexpr std::uint64_t kSamplesBeforeRate = 1000;

[[noreturn]] void budget_used_up(const Error& fault, const std::string& budget) {
  throw Error(ErrorCode::kExhausted,
              "too many faults (" + budget + "), the last: " + fault.message(), fault.where());
}

}  // namespace

FaultLedger::FaultLedger(FaultPolicy policy, Log log) : policy_(policy), log_(std::move(log)) {}

OnFault FaultLedger::report(const Error& fault, std::uint64_t samples) {
  // A request to stop is no fault of the data, and no policy may swallow it.
  if (policy_.on_fault == OnFault::kFail || fault.code() == ErrorCode::kCancelled) throw fault;
  log_.warn(std::string("skipped: ") + fault.what());
  const MutexLock lock(mutex_);
  ++faults_;
  skipped_ += samples;
  if (entries_.size() < kMaxEntries) {
    entries_.push_back({fault.where(), fault.code(), fault.message(), samples});
  }
  if (policy_.max_faults >= 0 && faults_ > policy_.max_faults) {
    budget_used_up(fault, "max_faults " + std::to_string(policy_.max_faults));
  }
  const std::uint64_t all = emitted_ + skipped_;
  if (all >= kSamplesBeforeRate &&
      static_cast<double>(skipped_) > policy_.max_fault_rate * static_cast<double>(all)) {
    budget_used_up(fault, std::to_string(skipped_) + " of " + std::to_string(all) + " samples");
  }
  return policy_.on_fault;
}

void FaultLedger::count_emitted(std::uint64_t samples) {
  const MutexLock lock(mutex_);
  emitted_ += samples;
}

void FaultLedger::warn(const Where& where, const std::string& message) {
  log_.warn(message + " (url " + where.url +
            (where.offset ? ", offset " + std::to_string(*where.offset) : "") + ")");
  const MutexLock lock(mutex_);
  ++warnings_;
}

std::vector<FaultLedger::Entry> FaultLedger::entries() const {
  const MutexLock lock(mutex_);
  return entries_;
}
std::uint64_t FaultLedger::read() const {
  const MutexLock lock(mutex_);
  return emitted_ + skipped_;
}
std::uint64_t FaultLedger::emitted() const {
  const MutexLock lock(mutex_);
  return emitted_;
}
std::uint64_t FaultLedger::skipped() const {
  const MutexLock lock(mutex_);
  return skipped_;
}
std::uint64_t FaultLedger::warnings() const {
  const MutexLock lock(mutex_);
  return warnings_;
}

}  // namespace millrace::wds

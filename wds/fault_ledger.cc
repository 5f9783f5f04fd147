#include "wds/fault_ledger.h"

#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/opener.h"
#include "wds/tar_reader.h"

namespace millrace::wds {
namespace {

// Below this many samples a rate is meaningless.
constexpr std::uint64_t kSamplesBeforeRate = 1000;

// How many different skips are logged individually.
constexpr std::size_t kSkipsSaid = 1000;

[[noreturn]] void budget_used_up(const Error& fault, const std::string& budget) {
  throw Error(ErrorCode::kExhausted,
              "too many samples are skipped (" + budget + "), the last: " + fault.message(),
              fault.where());
}

std::string skip_line(const Error& fault, std::uint64_t samples, bool more) {
  const bool whole = fault.where().key.empty() && !fault.where().offset;
  std::string cost = "skipped";
  if (more) {
    cost += whole ? " a shard" : " the rest of a shard";
    cost += ", number of samples unknown";
  } else if (samples != 1) {
    cost += ' ';
    cost += counted(samples, "sample");
  }
  return cost + ": " + fault.what();
}

}  // namespace

SaidWarnings::~SaidWarnings() {
  const MutexLock lock(mutex_);
  for (const auto& [kind, seen] : kinds_) {
    if (seen.unsaid > 0) log_.warn(kind + ": " + std::to_string(seen.unsaid) + " times more");
  }
}

void SaidWarnings::warn(const Log& log, const std::string& kind, const std::string& line,
                        std::size_t distinct) {
  const MutexLock lock(mutex_);
  log_ = log;
  Kind& seen = kinds_[kind];
  if (seen.said.size() < distinct && seen.said.insert(std::hash<std::string>{}(line)).second)
    return log_.warn(line);
  ++seen.unsaid;
}

std::string FaultPolicy::excess(std::uint64_t skipped, std::uint64_t read) const {
  if (max_faults >= 0 && skipped > static_cast<std::uint64_t>(max_faults))
    return std::to_string(skipped) + ", max_faults " + std::to_string(max_faults);
  const double allowed = max_fault_rate * static_cast<double>(read);
  if (read >= kSamplesBeforeRate && static_cast<double>(skipped) > allowed)
    return std::to_string(skipped) + " of " + std::to_string(read) + " samples";
  return {};
}

FaultLedger::FaultLedger(FaultPolicy policy, Log log)
    : policy_(std::move(policy)),
      said_(policy_.said ? policy_.said : std::make_shared<SaidWarnings>()),
      log_(std::move(log)) {
  require(policy_.max_fault_rate >= 0 && policy_.max_fault_rate <= 1,
          "max_fault_rate is a share: 0 to 1");
}

OnFault FaultLedger::report(const Error& fault, std::uint64_t samples) {
  return take(fault, samples, /*more=*/false);
}

OnFault FaultLedger::report_shard(const Error& fault, std::optional<std::uint64_t> samples) {
  return take(fault, samples.value_or(1), /*more=*/!samples);
}

OnFault FaultLedger::take(const Error& fault, std::uint64_t samples, bool more) {
  // A stop request is not a fault in the data, and no policy may swallow it.
  if (policy_.on_fault == OnFault::kFail || fault.code() == ErrorCode::kCancelled) throw fault;
  said_->warn(log_, "skipped", skip_line(fault, samples, more), kSkipsSaid);
  const MutexLock lock(mutex_);
  skipped_ += samples;
  unknown_shards_ += more ? 1 : 0;
  if (entries_.size() < kMaxEntries) {
    entries_.push_back({fault.where(), fault.code(), fault.message(), samples, more});
  }
  const std::string excess = policy_.excess(skipped_, emitted_ + skipped_);
  if (!excess.empty()) budget_used_up(fault, excess);
  return policy_.on_fault;
}

void FaultLedger::take_over(const std::vector<Entry>& skips, std::uint64_t unknown_shards,
                            std::uint64_t emitted) {
  const MutexLock lock(mutex_);
  emitted_ += emitted;
  unknown_shards_ += unknown_shards;
  for (const Entry& one : skips) skipped_ += one.samples;
  entries_.insert(entries_.end(), skips.begin(), skips.end());
}

void FaultLedger::count_filtered(std::uint64_t samples) {
  const MutexLock lock(mutex_);
  filtered_ += samples;
}

void FaultLedger::count_emitted(std::uint64_t samples) {
  const MutexLock lock(mutex_);
  emitted_ += samples;
}

void FaultLedger::warn(const Where& where, const std::string& kind, const std::string& detail) {
  said_->warn(log_, kind,
              kind + (detail.empty() ? "" : ": " + detail) + " (url " +
                  io::printable_url(where.url) +
                  (where.offset ? ", offset " + std::to_string(*where.offset) : "") + ")");
  const MutexLock lock(mutex_);
  ++warnings_;
}

void FaultLedger::warn_of(const TarWarnings& odd, const std::string& url) {
  const Where where{.url = url};
  if (odd.missing_end > 0) warn(where, "tar ends without its end marker");
  if (odd.ignored_members > 0)
    warn(where, "symbolic links and special files are left out",
         std::to_string(odd.ignored_members) + ", the first " + odd.first_ignored);
}

void FaultLedger::count_refetched(const std::string& url, std::uint64_t count) {
  if (count == 0) return;
  const std::string kind = "damaged on the network, intact when fetched again";
  said_->warn(log_, kind, kind + " (url " + io::printable_url(url) + ")");
  const MutexLock lock(mutex_);
  refetched_ += count;
}

void FaultLedger::check_not_empty(const std::string& what) const {
  std::string why;
  {
    const MutexLock lock(mutex_);
    if (emitted_ > 0) return;
    if (!entries_.empty())
      why = std::string(", the first: ") +
            Error(entries_[0].code, entries_[0].message, entries_[0].where).what();
  }
  throw Error(ErrorCode::kNotFound,
              what + " has no sample" + (why.empty() ? "" : ": skipped " + skipped_text() + why));
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
std::uint64_t FaultLedger::filtered() const {
  const MutexLock lock(mutex_);
  return filtered_;
}

std::uint64_t FaultLedger::skipped() const {
  const MutexLock lock(mutex_);
  return skipped_;
}
std::uint64_t FaultLedger::refetched() const {
  const MutexLock lock(mutex_);
  return refetched_;
}
std::uint64_t FaultLedger::unknown_shards() const {
  const MutexLock lock(mutex_);
  return unknown_shards_;
}
std::string FaultLedger::skipped_text() const {
  const MutexLock lock(mutex_);
  if (unknown_shards_ == 0) return counted(skipped_, "sample");
  return "at least " + counted(skipped_, "sample") + " (" + counted(unknown_shards_, "shard") +
         ", number of samples unknown)";
}
std::uint64_t FaultLedger::warnings() const {
  const MutexLock lock(mutex_);
  return warnings_;
}

}  // namespace millrace::wds

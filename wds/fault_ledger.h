// FaultLedger: decides what to do with damaged samples, and keeps account of it.
//
// The policy decides whether a fault in data ends the run (fail), costs the sample or the rest of
// the shard (skip, within a budget), or ends the shard list quietly (stop). Every skip is recorded
// with its url, key, member, offset and reason, and counted in samples: a lost shard counts as many
// as its index or manifest lists. If neither exists, it counts as one sample and as a shard of
// unknown size.
//
// Threads: every member may be called from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/log.h"
#include "io/base/thread_annotations.h"
#include "io/base/words.h"

namespace millrace::wds {

struct TarWarnings;

enum class OnFault { kFail, kSkip, kStop };
inline constexpr std::array<Word<OnFault>, 3> kOnFaultWords = {
    {{"fail", OnFault::kFail}, {"skip", OnFault::kSkip}, {"stop", OnFault::kStop}}};

/// Warnings that may recur at every shard and pass: each is logged once, repeats are counted, and
/// the counts are logged on destruction. Threads: every member may be called from any thread.
class SaidWarnings {
 public:
  ~SaidWarnings();
  /// Logs `line` if it is among the first `distinct` different lines of its `kind`, else counts it.
  void warn(const Log& log, const std::string& kind, const std::string& line,
            std::size_t distinct = 1);

 private:
  struct Kind {
    std::set<std::size_t> said = {};  ///< hashes of the lines
    std::uint64_t unsaid = 0;
  };
  Mutex mutex_;
  Log log_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, Kind> kinds_ MILLRACE_GUARDED_BY(mutex_);
};

struct FaultPolicy {
  OnFault on_fault = OnFault::kFail;
  /// Samples that may be skipped in an epoch; one more throws Exhausted. Negative: no limit. A
  /// ledger counts those of its process; the trainer, which exchanges them, those of all processes.
  std::int64_t max_faults = -1;
  /// The same as a share of the samples read, checked after the first 1,000; 1: no limit.
  double max_fault_rate = 1.0;
  /// Accepts interleaved keys, and a missing end marker when the cut lies between two samples.
  bool lenient = false;
  /// Continues after an end marker if another archive follows. Default: such data is a fault.
  bool concatenated = false;
  /// Treats a missing or damaged index as a fault. Default: the shard is read without it, with a
  /// warning if it is damaged.
  bool require_index = false;
  /// Returns how many samples an unreadable shard has, for example from a manifest; nullopt: look
  /// in its index. Called from any thread.
  std::function<std::optional<std::uint64_t>(const std::string& url)> samples_of = {};
  /// Shared by all ledgers of a program, so that no warning is logged twice. Default: one per
  /// ledger.
  std::shared_ptr<SaidWarnings> said = nullptr;

  /// By what more samples were skipped than may be, of so many read: "4, max_faults 3"; empty: they
  /// were not.
  std::string excess(std::uint64_t skipped, std::uint64_t read) const;
};

class FaultLedger {
 public:
  struct Entry {
    Where where;
    ErrorCode code;
    std::string message;
    /// Samples that it cost, at least.
    std::uint64_t samples = 1;
    /// An unknown number of further samples is lost too.
    bool more = false;
  };

  explicit FaultLedger(FaultPolicy policy = {}, Log log = {});

  const FaultPolicy& policy() const { return policy_; }

  /// Called with a caught fault: throws it if the policy is kFail or the fault is Cancelled;
  /// otherwise records it, counts `samples` as read and skipped, and returns kSkip or kStop.
  /// Throws: Exhausted if the budget is used up.
  OnFault report(const Error& fault, std::uint64_t samples = 1);
  /// The same for a fault that costs a shard or the rest of it: `samples`, if known.
  OnFault report_shard(const Error& fault, std::optional<std::uint64_t> samples);
  /// Takes over what an earlier run counted of the same epoch: `skips` are neither logged nor
  /// refused, but leave so much less of the budget. Of them, `unknown_shards` are one sample each.
  void take_over(const std::vector<Entry>& skips, std::uint64_t unknown_shards,
                 std::uint64_t emitted);
  /// Counts samples that were read completely and returned.
  void count_emitted(std::uint64_t samples);
  /// Counts samples that a filter left out before anything of them but its fields was read: they
  /// are neither read nor skipped.
  void count_filtered(std::uint64_t samples);
  /// Records an oddity that costs no sample: a tolerated missing end marker, an unusable index. One
  /// warning of each `kind` is logged, with its location and `detail`.
  void warn(const Where& where, const std::string& kind, const std::string& detail = {});
  /// The same for the oddities of the tar at `url`.
  void warn_of(const TarWarnings& odd, const std::string& url);
  /// Counts `count` samples, or an index, that arrived damaged over the network from `url` and
  /// intact when fetched again. Logged once.
  void count_refetched(const std::string& url, std::uint64_t count = 1);
  /// Throws: NotFound if nothing was emitted: `what` ("epoch 3") has no sample.
  void check_not_empty(const std::string& what) const;

  /// The first kMaxEntries skips.
  std::vector<Entry> entries() const;
  /// Samples read: always emitted() + skipped().
  std::uint64_t read() const;
  std::uint64_t emitted() const;
  std::uint64_t skipped() const;
  /// Samples that a filter left out: read() + filtered() are all of the set, where each is drawn
  /// once.
  std::uint64_t filtered() const;
  /// Samples and indexes that were intact when fetched again: they cost nothing.
  std::uint64_t refetched() const;
  /// Shards of unknown size, each of which is in skipped() as one sample.
  std::uint64_t unknown_shards() const;
  /// "25 samples", or "at least 26 samples (2 shards, number of samples unknown)".
  std::string skipped_text() const;
  std::uint64_t warnings() const;

  static constexpr std::size_t kMaxEntries = 100'000;

 private:
  OnFault take(const Error& fault, std::uint64_t samples, bool more);

  const FaultPolicy policy_;
  const std::shared_ptr<SaidWarnings> said_;
  Log log_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t emitted_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t skipped_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t filtered_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t unknown_shards_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t refetched_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t warnings_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::wds

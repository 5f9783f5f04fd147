// FaultLedger: what to do with a damaged sample, and the account of what was done.
//
// A fault in data is data: the policy says whether it ends the run (fail), costs the sample or the
// rest of the shard (skip, within a budget), or ends the shard list quietly (stop). Every skip is
// written down with its url, key, member, offset and reason.
//
// Threads: every member may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/log.h"
#include "io/base/thread_annotations.h"

namespace millrace::wds {

enum class OnFault { kFail, kSkip, kStop };

struct FaultPolicy {
  OnFault on_fault = OnFault::kFail;
  /// Skips allowed in an epoch; one more throws Exhausted. Below 0 there is no limit.
  std::int64_t max_faults = -1;
  /// Skips allowed as a share of the samples read, checked after the first 1,000; 1 is no limit.
  double max_fault_rate = 1.0;
  /// Accepts interleaved keys, and a missing end marker when the cut lies between two samples.
  bool lenient = false;
  /// Reads on behind an end marker where another archive follows. Default: such data is warned of.
  bool concatenated = false;
};

class FaultLedger {
 public:
  struct Entry {
    Where where;
    ErrorCode code;
    std::string message;
    /// Samples that it cost, as far as is known: 1, or the rest of a shard that has an index.
    std::uint64_t samples = 1;
  };

  explicit FaultLedger(FaultPolicy policy = {}, Log log = {});

  const FaultPolicy& policy() const { return policy_; }

  /// Called in a catch block's place with the fault: rethrows it when the policy is fail or the
  /// budget is used up; otherwise writes it down and returns what to do. Counts `samples` as read
  /// and skipped.
  OnFault report(const Error& fault, std::uint64_t samples = 1);
  /// Samples that were read whole and handed up.
  void count_emitted(std::uint64_t samples);
  /// Writes down what is odd but costs nothing: data after an end marker, a forgiven missing one.
  void warn(const Where& where, const std::string& message);

  /// At most the first kMaxEntries of them.
  std::vector<Entry> entries() const;
  /// emitted() + skipped() == read(), always.
  std::uint64_t read() const;
  std::uint64_t emitted() const;
  std::uint64_t skipped() const;
  std::uint64_t warnings() const;

  static constexpr std::size_t kMaxEntries = 100'000;

 private:
  const FaultPolicy policy_;
  Log log_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ MILLRACE_GUARDED_BY(mutex_);
  std::int64_t faults_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t emitted_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t skipped_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t warnings_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::wds

// FaultLedger: what to do with a damaged sample, and the account of what was done.
//
// A fault in data is data: the policy says whether it ends the run (fail), costs the sample or the
// rest of the shard (skip, within a budget), or ends the shard list quietly (stop). Every skip is
// written down with its url, key, member, offset and reason, and counted in samples: a shard that
// is lost costs as many as its index or manifest lists. Where neither says, it counts as one sample
// at least, and as a shard of which nobody knows.
//
// Threads: every member may be called from any thread.
#pragma once

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

namespace millrace::wds {

struct TarWarnings;

enum class OnFault { kFail, kSkip, kStop };

/// Warnings that may come again at every shard and pass: each is said once, the rest are counted,
/// and the counts told when the last who holds this lets go. Threads: any.
class SaidWarnings {
 public:
  ~SaidWarnings();
  /// Says the first `distinct` lines of a `kind` that differ.
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
  /// Samples that may be skipped in an epoch; one more throws Exhausted. Below 0: no limit.
  std::int64_t max_faults = -1;
  /// The same as a share of the samples read, checked after the first 1,000; 1 is no limit.
  double max_fault_rate = 1.0;
  /// Accepts interleaved keys, and a missing end marker when the cut lies between two samples.
  bool lenient = false;
  /// Reads on behind an end marker where another archive follows. Default: such data is a fault.
  bool concatenated = false;
  /// An index that is missing or damaged is a fault. Default: its shard is read without it, and a
  /// damaged one is warned of.
  bool require_index = false;
  /// How many samples the shard at a url has, asked when it cannot be read: what a manifest says,
  /// for example. Without an answer the index beside it is asked. Called from any thread.
  std::function<std::optional<std::uint64_t>(const std::string& url)> samples_of = {};
  /// Shared by all ledgers of a program, so that none says what another has said. Default: each its
  /// own.
  std::shared_ptr<SaidWarnings> said = nullptr;
};

class FaultLedger {
 public:
  struct Entry {
    Where where;
    ErrorCode code;
    std::string message;
    /// Samples that it cost, or the least that it can have cost.
    std::uint64_t samples = 1;
    /// More of the shard is lost, and nobody knows how much.
    bool more = false;
  };

  explicit FaultLedger(FaultPolicy policy = {}, Log log = {});

  const FaultPolicy& policy() const { return policy_; }

  /// Called in a catch block's place with the fault: rethrows it when the policy is fail or the
  /// budget is used up; otherwise writes it down and returns what to do. Counts `samples` as read
  /// and skipped.
  OnFault report(const Error& fault, std::uint64_t samples = 1);
  /// The same for a fault that costs a shard, or the rest of it: `samples`, if anybody knows.
  OnFault report_shard(const Error& fault, std::optional<std::uint64_t> samples);
  /// Samples that were read whole and handed up.
  void count_emitted(std::uint64_t samples);
  /// Writes down what is odd but costs nothing: a forgiven missing end marker, an index that cannot
  /// be used. One warning of each `kind` is said, with where it was and what there is to say.
  void warn(const Where& where, const std::string& kind, const std::string& detail = {});
  /// The same for what was odd in the tar at `url`.
  void warn_of(const TarWarnings& odd, const std::string& url);
  /// Counts what came damaged over the network from `url` and whole when it was fetched once more:
  /// so many samples, or the index. Said once.
  void count_refetched(const std::string& url, std::uint64_t count = 1);
  /// Throws: NotFound, when nothing was emitted: `what` ("epoch 3") is without a sample.
  void check_not_empty(const std::string& what) const;

  /// At most the first kMaxEntries of them.
  std::vector<Entry> entries() const;
  /// emitted() + skipped() == read(), always.
  std::uint64_t read() const;
  std::uint64_t emitted() const;
  std::uint64_t skipped() const;
  /// What was fetched twice over the network, and was whole the second time: it cost nothing.
  std::uint64_t refetched() const;
  /// Shards whose loss is in skipped() with one sample, since nobody knows how many they have.
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
  std::uint64_t unknown_shards_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t refetched_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t warnings_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::wds

// LedgerBook: a fault ledger for each epoch, so that budgets and sums hold per epoch although
// epochs overlap in the pipeline.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "io/base/log.h"
#include "io/base/thread_annotations.h"
#include "pipeline/position.h"
#include "wds/fault_ledger.h"

namespace millrace::pipeline::detail {

/// Counts over several ledgers.
struct Skips {
  std::uint64_t samples = 0;
  std::uint64_t unknown_shards = 0;
  std::uint64_t refetched = 0;
};

class LedgerBook {
 public:
  /// `filtered`: samples that this process counts as left out of each epoch.
  LedgerBook(wds::FaultPolicy policy, Log log, std::uint64_t filtered)
      : policy_(std::move(policy)), log_(std::move(log)), filtered_(filtered) {
    if (!policy_.said) policy_.said = std::make_shared<wds::SaidWarnings>();
  }

  /// The epoch's ledger, a new one at the first call.
  std::shared_ptr<wds::FaultLedger> of(std::uint32_t epoch) {
    MutexLock lock(mutex_);
    std::shared_ptr<wds::FaultLedger>& ledger = ledgers_[epoch];
    if (ledger) return ledger;
    ledger = std::make_shared<wds::FaultLedger>(policy_, log_);
    ledger->count_filtered(filtered_);
    return ledger;
  }
  /// Begins the epoch of `start` with what it had cost before. Requires: the first call.
  void begin_at(const Position& start) {
    const Position::Account before = start.account();
    std::vector<wds::FaultLedger::Entry> skips;
    for (const auto& [code, samples] : before.skipped)
      skips.push_back({.where = {},
                       .code = code,
                       .message = "before the position that the epoch was resumed from",
                       .samples = samples});
    const std::shared_ptr<wds::FaultLedger> ledger = of(start.epoch);
    ledger->take_over(skips, before.unknown, before.emitted);
    MutexLock lock(mutex_);
    add(*ledger, taken_over_);
  }
  /// Keeps only the counts of the ledgers before `epoch`; who shares one keeps it.
  void forget_before(std::uint32_t epoch) {
    MutexLock lock(mutex_);
    const auto end = ledgers_.lower_bound(epoch);
    for (auto one = ledgers_.begin(); one != end; ++one) add(*one->second, forgotten_);
    ledgers_.erase(ledgers_.begin(), end);
  }

  /// Of the epochs up to `epoch`, without those that are read ahead and what begin_at() took over.
  Skips skips_up_to(std::uint32_t epoch) const {
    MutexLock lock(mutex_);
    Skips skips = forgotten_;
    const auto end = ledgers_.upper_bound(epoch);
    for (auto one = ledgers_.begin(); one != end; ++one) add(*one->second, skips);
    skips.samples -= taken_over_.samples;
    skips.unknown_shards -= taken_over_.unknown_shards;
    return skips;
  }

 private:
  static void add(const wds::FaultLedger& ledger, Skips& skips) {
    skips.samples += ledger.skipped();
    skips.unknown_shards += ledger.unknown_shards();
    skips.refetched += ledger.refetched();
  }

  wds::FaultPolicy policy_;
  const Log log_;
  const std::uint64_t filtered_;
  mutable Mutex mutex_;
  Skips taken_over_ MILLRACE_GUARDED_BY(mutex_);
  Skips forgotten_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::shared_ptr<wds::FaultLedger>> ledgers_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::pipeline::detail

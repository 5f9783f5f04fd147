// LedgerBook: a fault ledger for each epoch, so that budgets and sums hold an epoch at a time
// although epochs overlap in the pipeline.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "io/base/log.h"
#include "io/base/thread_annotations.h"
#include "wds/fault_ledger.h"

namespace millrace::pipeline::detail {

class LedgerBook {
 public:
  LedgerBook(wds::FaultPolicy policy, Log log) : policy_(policy), log_(std::move(log)) {}

  std::shared_ptr<wds::FaultLedger> of(std::uint32_t epoch) {
    MutexLock lock(mutex_);
    std::shared_ptr<wds::FaultLedger>& ledger = ledgers_[epoch];
    if (!ledger) ledger = std::make_shared<wds::FaultLedger>(policy_, log_);
    return ledger;
  }
  /// Whoever still holds one keeps it.
  void forget_before(std::uint32_t epoch) {
    MutexLock lock(mutex_);
    ledgers_.erase(ledgers_.begin(), ledgers_.lower_bound(epoch));
  }

 private:
  const wds::FaultPolicy policy_;
  const Log log_;
  Mutex mutex_;
  std::map<std::uint32_t, std::shared_ptr<wds::FaultLedger>> ledgers_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::pipeline::detail

#include "wds/fault_ledger.h"

#include <gtest/gtest.h>

namespace millrace::wds {
namespace {

const Error kFault(ErrorCode::kCorrupt, "bad", {.url = "a.tar", .key = "k"});

TEST(FaultLedger, FailRethrows) {
  FaultLedger ledger;
  EXPECT_THROW(ledger.report(kFault), Error);
  EXPECT_TRUE(ledger.entries().empty());
}

TEST(FaultLedger, SkipWritesDownUpToTheBudget) {
  FaultLedger ledger({.on_fault = OnFault::kSkip, .max_faults = 2});
  EXPECT_EQ(ledger.report(kFault), OnFault::kSkip);
  EXPECT_EQ(ledger.report(kFault, 5), OnFault::kSkip);
  try {
    ledger.report(kFault);
    FAIL() << "the budget was 2";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kExhausted);
    EXPECT_EQ(error.where().key, "k");
  }
  EXPECT_EQ(ledger.skipped(), 7U);
}

TEST(FaultLedger, ARateCountsAfterAThousandSamples) {
  FaultLedger ledger({.on_fault = OnFault::kSkip, .max_fault_rate = 0.01});
  EXPECT_NO_THROW(ledger.report(kFault, 900));
  ledger.count_emitted(100'000);
  EXPECT_NO_THROW(ledger.report(kFault));
  EXPECT_THROW(ledger.report(kFault, 200), Error);
  EXPECT_EQ(ledger.emitted() + ledger.skipped(), ledger.read());
}

TEST(FaultLedger, NoPolicySwallowsARequestToStop) {
  FaultLedger ledger({.on_fault = OnFault::kSkip});
  EXPECT_THROW(ledger.report(Error(ErrorCode::kCancelled, "stop")), Error);
}

}  // namespace
}  // namespace millrace::wds

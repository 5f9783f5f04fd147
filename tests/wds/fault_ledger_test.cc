#include "wds/fault_ledger.h"

#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"

namespace millrace::wds {
namespace {

const Error kFault(ErrorCode::kCorrupt, "bad", {.url = "a.tar", .key = "k"});

TEST(FaultLedger, FailRethrows) {
  FaultLedger ledger;
  EXPECT_THROW(ledger.report(kFault), Error);
  EXPECT_TRUE(ledger.entries().empty());
}

TEST(FaultLedger, SkipWritesDownUpToTheBudget) {
  FaultLedger ledger({.on_fault = OnFault::kSkip, .max_faults = 6});
  EXPECT_EQ(ledger.report(kFault), OnFault::kSkip);
  EXPECT_EQ(ledger.report(kFault, 5), OnFault::kSkip);
  try {
    ledger.report(kFault);
    FAIL() << "the budget was 6 samples";
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

TEST(FaultLedger, AShardOfUnknownLengthIsOneSampleAtLeast) {
  FaultLedger ledger({.on_fault = OnFault::kSkip});
  ledger.report_shard(kFault, 25);
  EXPECT_EQ(ledger.skipped_text(), "25 samples");
  ledger.report_shard(kFault, std::nullopt);
  EXPECT_EQ(ledger.skipped(), 26U);
  EXPECT_EQ(ledger.unknown_shards(), 1U);
  EXPECT_TRUE(ledger.entries()[1].more);
}

TEST(FaultLedger, NothingEmittedIsAnError) {
  FaultLedger ledger({.on_fault = OnFault::kSkip});
  EXPECT_THROW(ledger.check_not_empty("epoch 3"), Error);
  ledger.report(kFault);
  try {
    ledger.check_not_empty("epoch 3");
    FAIL() << "there is no sample";
  } catch (const Error& error) {
    EXPECT_EQ(
        error.message(),
        "epoch 3 has no sample: skipped 1 sample, the first: Corrupt: bad (url a.tar, key k)");
  }
  ledger.count_emitted(1);
  EXPECT_NO_THROW(ledger.check_not_empty("epoch 3"));
}

TEST(FaultLedger, EachWarningIsLoggedOnceAndTheRestAreCounted) {
  const testing::TempDir dir;
  {
    const Log log = Log::to_file(dir / "log");
    const auto said = std::make_shared<SaidWarnings>();
    for (int epoch = 0; epoch < 3; ++epoch) {
      FaultLedger ledger({.on_fault = OnFault::kSkip, .said = said}, log);
      for (const char* url : {"a.tar", "b.tar"}) ledger.warn({.url = url}, "odd", "very");
      for (const char* key : {"k", "l"})
        ledger.report(Error(ErrorCode::kCorrupt, "bad", {.key = key}));
      EXPECT_EQ(ledger.warnings(), 2U);
    }
  }
  EXPECT_EQ(testing::read_file(dir / "log"),
            "warning: odd: very (url a.tar)\n"
            "warning: skipped: Corrupt: bad (key k)\n"
            "warning: skipped: Corrupt: bad (key l)\n"
            "warning: odd: 5 times more\n"
            "warning: skipped: 4 times more\n");
}

TEST(FaultLedger, NoPolicySkipsARequestToStop) {
  FaultLedger ledger({.on_fault = OnFault::kSkip});
  EXPECT_THROW(ledger.report(Error(ErrorCode::kCancelled, "stop")), Error);
}

}  // namespace
}  // namespace millrace::wds

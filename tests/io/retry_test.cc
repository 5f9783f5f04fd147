// Back-off and stall detection, with a clock that the test controls.
#include "io/detail/http/retry.h"

#include <gtest/gtest.h>

#include "io/detail/http/network_log.h"
#include "io/detail/http/stall_watch.h"
#include "tests/support/temp_dir.h"

namespace millrace::io::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Clock::TimePoint kStart{std::chrono::hours(1)};

/// When `watch` first reports a stall if it gets `piece` bytes every `period`; 0: not within five
/// minutes.
seconds stalls_after(std::uint64_t piece, seconds period) {
  StallWatch watch(seconds(30), 1024);
  for (milliseconds passed{0}; passed < seconds(300); passed += milliseconds(100)) {
    const auto pieces = static_cast<std::uint64_t>(passed / period);
    if (watch.stalls(kStart + passed, piece * pieces)) {
      return std::chrono::duration_cast<seconds>(passed);
    }
  }
  return seconds(0);
}

TEST(StallWatch, CallsAStallByTheRateOverTheWindow) {
  EXPECT_EQ(stalls_after(800, seconds(1)), seconds(30));
  EXPECT_EQ(stalls_after(200, seconds(20)), seconds(30));
  EXPECT_EQ(stalls_after(0, seconds(1)), seconds(30));
  EXPECT_EQ(stalls_after(1100, seconds(1)), seconds(0));
  EXPECT_EQ(stalls_after(20'000, seconds(10)), seconds(0)) << "bursts that are enough together";
}

TEST(StallWatch, FindsAStallBehindAGoodBeginning) {
  StallWatch watch(seconds(30), 1024);
  for (unsigned s = 0; s <= 60; ++s) EXPECT_FALSE(watch.stalls(kStart + seconds(s), 100'000U * s));
  EXPECT_FALSE(watch.stalls(kStart + seconds(85), 6'000'000));
  EXPECT_TRUE(watch.stalls(kStart + seconds(92), 6'000'000));
}

TEST(StallWatch, IgnoresTheTimeBeforeARestart) {
  StallWatch watch(seconds(30), 1024);
  EXPECT_FALSE(watch.stalls(kStart, 0));
  watch.restart(kStart + seconds(40), 0);
  EXPECT_FALSE(watch.stalls(kStart + seconds(69), 0));
  EXPECT_TRUE(watch.stalls(kStart + seconds(71), 0));
}

class BackoffTest : public ::testing::Test {
 protected:
  RetryOptions options_{.patience = seconds(60)};
  RetryBudget budget_{options_};
  Backoff backoff_{options_, budget_};
};

TEST_F(BackoffTest, CountsFromWhereTheReaderBeganToWait) {
  backoff_.begin(kStart);
  ASSERT_TRUE(backoff_.failed(kStart + seconds(30), {}));
  backoff_.begin(kStart + seconds(40));  // the same wait: no bytes arrived
  EXPECT_LE(*backoff_.left(kStart + seconds(40)), seconds(20));
  EXPECT_FALSE(backoff_.failed(kStart + seconds(60), {}));
}

TEST_F(BackoffTest, AByteIsProgress) {
  backoff_.begin(kStart);
  ASSERT_TRUE(backoff_.failed(kStart + seconds(59), {}));
  backoff_.progressed(1);
  backoff_.begin(kStart + seconds(61));
  EXPECT_TRUE(backoff_.failed(kStart + seconds(120), {}));
}

TEST_F(BackoffTest, ATrickleIsNotProgress) {
  backoff_.begin(kStart);
  ASSERT_TRUE(backoff_.failed(kStart + seconds(30), {.least_progress = 30'720}));
  backoff_.progressed(24'000);
  backoff_.begin(kStart + seconds(61));
  EXPECT_FALSE(backoff_.failed(kStart + seconds(61), {.least_progress = 30'720}));
}

TEST_F(BackoffTest, ATryMayShortenThePatience) {
  backoff_.begin(kStart);
  ASSERT_TRUE(backoff_.failed(kStart + seconds(1), {.patience = seconds(4)}));
  EXPECT_FALSE(backoff_.failed(kStart + seconds(4), {.patience = seconds(4)}));
}

TEST_F(BackoffTest, NeitherTheServerNorTheBudgetExceedsThePatience) {
  backoff_.begin(kStart);
  const FailedTry busy{.retry_after = seconds(999'999)};
  EXPECT_EQ(backoff_.failed(kStart + seconds(52), busy), seconds(8));
  EXPECT_FALSE(backoff_.failed(kStart + seconds(60), busy));
  for (int i = 0; i < 10'000; ++i) budget_.take(kStart);
  Backoff other(options_, budget_);
  other.begin(kStart);
  EXPECT_EQ(other.failed(kStart, {}), seconds(60));
}

TEST(NetworkLog, SaysEachReasonOnceAndCountsTheRest) {
  const testing::TempDir dir;
  NetworkLog log(Log::to_file(dir / "log"));
  for (int i = 0; i < 1000; ++i) {
    log.retry("http://h/a.tar", "closed after " + std::to_string(i) + " ms", seconds(60));
  }
  const std::string text = testing::read_file(dir / "log");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_NE(text.find("1000 tries were repeated so far"), std::string::npos) << text;
}

TEST(NetworkLog, StaysShortForASetOfManyShards) {
  const testing::TempDir dir;
  NetworkLog log(Log::to_file(dir / "log"));
  for (int i = 0; i < 10'000; ++i) {
    log.retry("http://h/" + std::to_string(i) + ".tar", "refused", seconds(60));
    log.wait("http://h/" + std::to_string(i) + ".tar", "no answer yet", seconds(2));
  }
  const std::string text = testing::read_file(dir / "log");
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 50) << text;
}

}  // namespace
}  // namespace millrace::io::detail

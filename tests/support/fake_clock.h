// FakeClock: time that passes only during sleeps, and a record of each sleep.
//
//   FakeClock clock;
//   source with {.clock = &clock} ...
//   EXPECT_THAT(clock.sleeps(), ElementsAre(...));
//
// Threads: every member may be called from any thread.
#pragma once

#include <mutex>
#include <vector>

#include "io/base/clock.h"

namespace millrace::testing {

class FakeClock final : public Clock {
 public:
  TimePoint now() const override {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  /// Returns at once; now() is `duration` later.
  bool sleep_for(Duration duration, const std::stop_token& stop) const override {
    const std::lock_guard lock(mutex_);
    now_ += duration;
    sleeps_.push_back(duration);
    return !stop.stop_requested();
  }
  void advance(Duration duration) {
    const std::lock_guard lock(mutex_);
    now_ += duration;
  }
  std::vector<Duration> sleeps() const {
    const std::lock_guard lock(mutex_);
    return sleeps_;
  }

 private:
  mutable std::mutex mutex_;
  mutable TimePoint now_{std::chrono::hours(1)};
  mutable std::vector<Duration> sleeps_;
};

}  // namespace millrace::testing

// Clock: time as an injected dependency, so that tests of back-off do not really wait.
//
// Threads: every member may be called from any thread.
#pragma once

#include <chrono>
#include <stop_token>

namespace millrace {

class Clock {
 public:
  using Duration = std::chrono::nanoseconds;
  using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

  virtual ~Clock() = default;

  /// Monotonic time.
  virtual TimePoint now() const = 0;
  /// Waits for `duration`, or until a stop is requested. False if it was.
  virtual bool sleep_for(Duration duration, const std::stop_token& stop) const = 0;

  /// The machine's steady clock. Lifetime: static.
  static const Clock& system();
};

/// `duration`, or ten years where it is longer, as "for ever" is: it can be added to a moment.
template <typename Rep, typename Period>
constexpr Clock::Duration bounded(std::chrono::duration<Rep, Period> duration) {
  constexpr std::chrono::hours kTenYears{24 * 3650};
  return duration < kTenYears ? std::chrono::duration_cast<Clock::Duration>(duration) : kTenYears;
}

}  // namespace millrace

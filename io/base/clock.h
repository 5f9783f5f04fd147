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

}  // namespace millrace

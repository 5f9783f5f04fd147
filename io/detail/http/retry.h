// When to retry: exponential back-off with full jitter for one reader, and a token bucket of
// retries that all readers of an opener share, so that a recovering server is not overrun.
//
// Source: M. Brooker, "Exponential Backoff And Jitter" (AWS, 2015): full jitter.
#pragma once

#include <cstdint>
#include <optional>

#include "io/base/clock.h"
#include "io/base/rng.h"
#include "io/base/thread_annotations.h"
#include "io/http_options.h"

namespace millrace::io::detail {

/// Threads: every member may be called from any thread.
class RetryBudget {
 public:
  explicit RetryBudget(const RetryOptions& options);

  /// Takes one retry and returns how long to wait until it is available.
  Clock::Duration take(Clock::TimePoint now) MILLRACE_EXCLUDES(mutex_);
  /// Uniform in [0, 1).
  float jitter() MILLRACE_EXCLUDES(mutex_);

 private:
  double burst_;
  double per_second_;
  Mutex mutex_;
  double tokens_ MILLRACE_GUARDED_BY(mutex_);
  std::optional<Clock::TimePoint> filled_ MILLRACE_GUARDED_BY(mutex_);
  KeyedRng rng_ MILLRACE_GUARDED_BY(mutex_);
};

/// The properties of a failed try that affect the next one.
struct FailedTry {
  /// The server's Retry-After.
  std::optional<std::chrono::seconds> retry_after = {};
  /// Fewer bytes than this from later tries do not count as progress.
  std::uint64_t least_progress = 1;
  /// Replaces the patience if it is shorter.
  std::optional<Clock::Duration> patience = {};
};

/// The tries of one reader since its last progress.
class Backoff {
 public:
  Backoff(const RetryOptions& options, RetryBudget& budget) : options_(options), budget_(budget) {}

  /// The reader starts to wait: the patience counts from here unless a try has failed already.
  void begin(Clock::TimePoint now) {
    if (tries_ == 0) since_ = now;
  }
  /// Bytes arrived: forgets the failed tries once they are enough.
  void progressed(std::uint64_t bytes);
  /// A try failed at `now`. Returns how long to wait before the next one; nullopt if it was the
  /// last.
  std::optional<Clock::Duration> failed(Clock::TimePoint now, const FailedTry& how);
  int tries() const { return tries_; }
  /// The time limit of a try that starts at `now`: what is left of the patience, at least 1 s.
  /// Nullopt: no limit.
  std::optional<Clock::Duration> left(Clock::TimePoint now) const;

 private:
  Clock::Duration jittered() const;

  const RetryOptions& options_;
  RetryBudget& budget_;
  int tries_ = 0;
  std::uint64_t owed_ = 0;  // bytes that must arrive before the failed tries are forgotten
  Clock::TimePoint since_{};
};

}  // namespace millrace::io::detail

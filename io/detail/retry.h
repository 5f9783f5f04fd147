// When to try again: exponential back-off with full jitter for one reader, and a bucket of retries
// that all readers of an opener share, so that a server that comes back is not trampled.
//
// Source: M. Brooker, "Exponential Backoff And Jitter" (AWS, 2015): full jitter.
#pragma once

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

  /// Takes one retry; how long to wait until it is there.
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

/// The tries of one reader since its last new byte.
class Backoff {
 public:
  Backoff(const RetryOptions& options, RetryBudget& budget) : options_(options), budget_(budget) {}

  /// A byte came: count from the beginning again.
  void progressed() { tries_ = 0; }
  /// A try failed at `now`. How long to wait before the next one; nothing when it was the last.
  std::optional<Clock::Duration> failed(Clock::TimePoint now,
                                        std::optional<std::chrono::seconds> retry_after);
  int tries() const { return tries_; }

 private:
  const RetryOptions& options_;
  RetryBudget& budget_;
  int tries_ = 0;
  Clock::TimePoint first_failure_{};
};

}  // namespace millrace::io::detail

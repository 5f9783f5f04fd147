// When to try again: exponential back-off with full jitter for one reader, and a bucket of retries
// that all readers of an opener share, so that a server that comes back is not trampled.
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

/// How one try failed, as far as it matters to the next one.
struct FailedTry {
  /// What the server asks for.
  std::optional<std::chrono::seconds> retry_after = {};
  /// Less than this from a later try is no progress.
  std::uint64_t least_progress = 1;
  /// Ends the patience sooner.
  std::optional<Clock::Duration> patience = {};
};

/// The tries of one reader since its last progress.
class Backoff {
 public:
  Backoff(const RetryOptions& options, RetryBudget& budget) : options_(options), budget_(budget) {}

  /// The reader begins to wait: without a failed try the patience counts from here.
  void begin(Clock::TimePoint now) {
    if (tries_ == 0) since_ = now;
  }
  /// Bytes came: count from the beginning again, when they are enough.
  void progressed(std::uint64_t bytes);
  /// A try failed at `now`. How long to wait before the next one; nothing when it was the last.
  std::optional<Clock::Duration> failed(Clock::TimePoint now, const FailedTry& how);
  int tries() const { return tries_; }
  /// What is left of the patience for a try that starts at `now`; nothing: it has no limit.
  std::optional<Clock::Duration> left(Clock::TimePoint now) const;

 private:
  Clock::Duration jittered() const;

  const RetryOptions& options_;
  RetryBudget& budget_;
  int tries_ = 0;
  std::uint64_t owed_ = 0;  // bytes that must come before the failed tries are forgotten
  Clock::TimePoint since_{};
};

}  // namespace millrace::io::detail

// Renewed: a secret that expires, fetched once for all who ask and again before it expires.
//
// While one caller fetches, the others use the previous secret if it is still good, and wait
// otherwise. A fetch that fails while the previous secret is good is tried again a minute later.
//
// Threads: every member may be called from any thread.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <utility>

#include "io/base/clock.h"
#include "io/base/error.h"
#include "io/base/thread_annotations.h"

namespace millrace::io::detail {

template <typename Secret>
class Renewed {
 public:
  struct Fetched {
    Secret secret = {};
    /// Nullopt: it does not expire.
    std::optional<Clock::Duration> lifetime = {};
  };
  struct Held {
    Secret secret = {};
    /// Counts the fetches; 0 before the first.
    std::uint64_t version = 0;
  };

  /// Whether get() would return at once.
  bool ready(Clock::TimePoint now) const MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return good(now) && (now < renew_at_ || fetching_);
  }

  /// The secret; `fetch() -> Fetched` is called if there is none, or if it expires soon. Throws: as
  /// fetch(); Cancelled.
  template <typename Fetch>
  Held get(const Clock& clock, const std::stop_token& stop, Fetch fetch) MILLRACE_EXCLUDES(mutex_) {
    if (std::optional<Held> held = wait_for_turn(clock.now(), stop)) return *std::move(held);
    try {
      return keep(fetch(), clock.now());
    } catch (const Error& error) {
      return keep_previous(error, clock.now());
    }
  }

  /// The secret of that version was refused: the next get() fetches another one.
  void refused(std::uint64_t version) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (version == held_.version) has_ = false;
  }

 private:
  static constexpr Clock::Duration kEarly = std::chrono::minutes(5);
  static constexpr Clock::Duration kRetry = std::chrono::minutes(1);

  bool good(Clock::TimePoint now) const MILLRACE_REQUIRES(mutex_) {
    return has_ && (!expires_ || now < *expires_);
  }

  // Nullopt: the caller fetches.
  std::optional<Held> wait_for_turn(Clock::TimePoint now, const std::stop_token& stop) {
    MutexLock lock(mutex_);
    const std::uint64_t failures = failures_;
    if (fetching_ && !good(now)) {
      changed_.wait(lock, stop, [this]() MILLRACE_REQUIRES(mutex_) { return !fetching_; });
      if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "reading was stopped");
      if (failures != failures_ && !has_) throw Error(*failure_);
    }
    if (good(now) && (now < renew_at_ || fetching_)) return held_;
    fetching_ = true;
    return std::nullopt;
  }

  Held keep(Fetched fetched, Clock::TimePoint now) {
    MutexLock lock(mutex_);
    held_ = {std::move(fetched.secret), held_.version + 1};
    has_ = true;
    expires_.reset();
    renew_at_ = Clock::TimePoint::max();
    if (fetched.lifetime) {
      expires_ = now + *fetched.lifetime;
      renew_at_ = *expires_ - std::min(kEarly, *fetched.lifetime / 2);
    }
    fetching_ = false;
    changed_.notify_all();
    return held_;
  }

  Held keep_previous(const Error& error, Clock::TimePoint now) {
    MutexLock lock(mutex_);
    fetching_ = false;
    changed_.notify_all();
    if (good(now)) {
      renew_at_ = now + kRetry;
      return held_;
    }
    has_ = false;
    // Another caller's stop is no reason for those who waited for it.
    if (error.code() != ErrorCode::kCancelled) {
      failure_ = error;
      ++failures_;
    }
    throw Error(error);
  }

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  Held held_ MILLRACE_GUARDED_BY(mutex_);
  bool has_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool fetching_ MILLRACE_GUARDED_BY(mutex_) = false;
  std::optional<Clock::TimePoint> expires_ MILLRACE_GUARDED_BY(mutex_);
  Clock::TimePoint renew_at_ MILLRACE_GUARDED_BY(mutex_){};
  std::optional<Error> failure_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t failures_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::io::detail

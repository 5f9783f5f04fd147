#include "io/detail/http/retry.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace millrace::io::detail {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;

// Jitter is the one random choice that must differ between processes and runs: its seed comes from
// the machine.
RngKey random_key() {
  std::random_device device;
  return {.seed = (std::uint64_t{device()} << 32) | device()};
}

}  // namespace

RetryBudget::RetryBudget(const RetryOptions& options)
    : burst_(options.burst),
      per_second_(options.per_second),
      tokens_(options.burst),
      rng_(random_key()) {}

Clock::Duration RetryBudget::take(Clock::TimePoint now) {
  MutexLock lock(mutex_);
  if (filled_) {
    const duration<double> passed = now - *filled_;
    tokens_ = std::min(burst_, tokens_ + per_second_ * passed.count());
  }
  filled_ = now;
  tokens_ -= 1.0;
  if (tokens_ >= 0.0) return Clock::Duration::zero();
  return duration_cast<Clock::Duration>(duration<double>(-tokens_ / per_second_));
}

float RetryBudget::jitter() {
  MutexLock lock(mutex_);
  return rng_.uniform();
}

void Backoff::progressed(std::uint64_t bytes) {
  owed_ -= std::min(owed_, bytes);
  if (owed_ == 0) tries_ = 0;
}

std::optional<Clock::Duration> Backoff::left(Clock::TimePoint now) const {
  // The last try starts when the patience ends, and gets this long.
  constexpr Clock::Duration kLastTry = std::chrono::seconds(1);
  if (options_.patience.count() == 0) return {};
  if (tries_ == 0) return std::max<Clock::Duration>(kLastTry, options_.patience);
  return std::max<Clock::Duration>(kLastTry, since_ + options_.patience - now);
}

Clock::Duration Backoff::jittered() const {
  const double doublings = std::min(tries_ - 1, 30);
  const duration<double> ceiling = std::min<duration<double>>(
      options_.max_backoff, duration<double>(options_.first_backoff) * std::exp2(doublings));
  return duration_cast<Clock::Duration>(ceiling * budget_.jitter());
}

std::optional<Clock::Duration> Backoff::failed(Clock::TimePoint now, const FailedTry& how) {
  const Clock::Duration patience =
      std::min<Clock::Duration>(options_.patience, how.patience.value_or(options_.patience));
  ++tries_;
  owed_ = how.least_progress;
  const Clock::Duration left = since_ + patience - now;
  if (left <= Clock::Duration::zero()) return {};
  Clock::Duration wait = jittered();
  if (how.retry_after) {
    wait += std::min<Clock::Duration>(*how.retry_after, options_.max_retry_after);
  }
  // Whoever asks for more patience than there is, is tried once more at its end.
  return std::min(std::max(wait, budget_.take(now)), left);
}

}  // namespace millrace::io::detail

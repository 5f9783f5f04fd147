#include "io/detail/retry.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace millrace::io::detail {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;

// Jitter is the one choice that must differ between ranks and runs: its seed is the machine's.
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

std::optional<Clock::Duration> Backoff::failed(Clock::TimePoint now,
                                               std::optional<std::chrono::seconds> retry_after) {
  if (tries_ == 0) first_failure_ = now;
  ++tries_;
  if (tries_ >= options_.max_tries && now - first_failure_ >= options_.patience) return {};
  const double doublings = std::min(tries_ - 1, 30);
  const duration<double> ceiling = std::min<duration<double>>(
      options_.max_backoff, duration<double>(options_.first_backoff) * std::exp2(doublings));
  Clock::Duration wait = duration_cast<Clock::Duration>(ceiling * budget_.jitter());
  if (retry_after) {
    wait += std::min<Clock::Duration>(*retry_after, options_.max_retry_after);
  }
  return std::max(wait, budget_.take(now));
}

}  // namespace millrace::io::detail

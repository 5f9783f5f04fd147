// RateMeter: the rate of samples; and seconds since a time.
//
// Threads: as a value.
#pragma once

#include <chrono>
#include <cstdint>

namespace millrace::trainer {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Samples per second: since the last mark(), smoothed (0.6 new + 0.4 old), and since the start.
class RateMeter {
 public:
  using Clock = std::chrono::steady_clock;

  explicit RateMeter(Clock::time_point start = Clock::now()) : start_(start), last_(start) {}

  void add(std::int64_t samples) { count_ += samples; }
  /// Updates rate() with the samples since the last call.
  void mark(Clock::time_point now = Clock::now()) {
    const double seconds = std::chrono::duration<double>(now - last_).count();
    if (seconds <= 0.0) return;
    const double fresh = static_cast<double>(count_ - marked_) / seconds;
    rate_ = marked_ == 0 ? fresh : kNew * fresh + (1.0 - kNew) * rate_;
    marked_ = count_;
    last_ = now;
  }
  double rate() const { return rate_; }
  double global_rate(Clock::time_point now = Clock::now()) const {
    const double seconds = std::chrono::duration<double>(now - start_).count();
    return seconds > 0.0 ? static_cast<double>(count_) / seconds : 0.0;
  }
  std::int64_t count() const { return count_; }

 private:
  static constexpr double kNew = 0.6;
  Clock::time_point start_;
  Clock::time_point last_;
  std::int64_t count_ = 0;
  std::int64_t marked_ = 0;
  double rate_ = 0.0;
};

}  // namespace millrace::trainer

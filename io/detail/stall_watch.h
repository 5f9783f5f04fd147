// StallWatch: whether a transfer is too slow, by its rate over a sliding window.
//
// A comparison from one look to the next would not do: any packet makes that one look well, and a
// server that sends one every 20 s would never be found.
#pragma once

#include <cstdint>
#include <deque>

#include "io/base/clock.h"

namespace millrace::io::detail {

class StallWatch {
 public:
  StallWatch(Clock::Duration window, std::uint64_t bytes_per_s)
      : window_(window), bytes_per_s_(static_cast<double>(bytes_per_s)) {}

  /// Forgets what was: the time until `now` is not the server's.
  void restart(Clock::TimePoint now, std::uint64_t bytes) { marks_.assign(1, {now, bytes}); }

  /// `bytes`: moved in all until `now`. True when fewer than `bytes_per_s` came in the last window.
  bool stalls(Clock::TimePoint now, std::uint64_t bytes) {
    constexpr int kMarks = 32;  // in a window: how finely it slides
    if (marks_.empty() || bytes < marks_.back().bytes) restart(now, bytes);
    if (now - marks_.back().at >= window_ / kMarks) marks_.push_back({now, bytes});
    while (marks_.size() > 1 && now - marks_[1].at >= window_) marks_.pop_front();
    const std::chrono::duration<double> passed = now - marks_.front().at;
    const auto moved = static_cast<double>(bytes - marks_.front().bytes);
    return passed >= window_ && moved < bytes_per_s_ * passed.count();
  }

 private:
  struct Mark {
    Clock::TimePoint at;
    std::uint64_t bytes = 0;
  };

  Clock::Duration window_;
  double bytes_per_s_;
  std::deque<Mark> marks_;  // the first is a window old, or the oldest there is
};

}  // namespace millrace::io::detail

// StallWatch: whether a transfer is too slow, by its rate over a sliding window.
//
// Comparing only two successive checks would not do: any packet would make the transfer look alive,
// and a server that sends one every 20 s would never be detected.
#pragma once

#include <cstdint>
#include <deque>

#include "io/base/clock.h"

namespace millrace::io::detail {

class StallWatch {
 public:
  StallWatch(Clock::Duration window, std::uint64_t bytes_per_s)
      : window_(window), bytes_per_s_(static_cast<double>(bytes_per_s)) {}

  /// Starts over: the time until `now` is not counted against the server.
  void restart(Clock::TimePoint now, std::uint64_t bytes) { marks_.assign(1, {now, bytes}); }

  /// `bytes`: total moved until `now`. True if the rate over the last window was below
  /// `bytes_per_s`.
  bool stalls(Clock::TimePoint now, std::uint64_t bytes) {
    constexpr int kMarks = 32;  // per window: how finely it slides
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
  std::deque<Mark> marks_;  // the first is one window old, or the oldest available
};

}  // namespace millrace::io::detail

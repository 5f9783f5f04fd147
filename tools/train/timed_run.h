// TimedRun: ends a training run after a number of seconds and counts its samples after the first
// step, masked slots left out.
//
// The first step is not counted: it compiles and warms up. Threads: as trainer::Observer; the token
// from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>

#include "trainer/observer.h"

namespace millrace::tools {

class TimedRun final : public trainer::Observer {
 public:
  /// Also ends when `outer` is requested.
  TimedRun(double seconds, const std::stop_token& outer)
      : limit_(seconds), forward_(outer, Forward{source_}) {}

  std::stop_token token() const { return source_.get_token(); }
  /// Of all devices.
  std::uint64_t samples() const { return samples_; }
  /// From the end of the first step to the end of the last one.
  double seconds() const { return seconds_; }

  void on_step(const trainer::StepEvent& event) override {
    const auto now = std::chrono::steady_clock::now();
    if (!started_)
      start_ = now;
    else
      samples_ += static_cast<std::uint64_t>(event.global_samples);
    started_ = true;
    seconds_ = std::chrono::duration<double>(now - start_).count();
    if (seconds_ >= limit_) source_.request_stop();
  }

 private:
  struct Forward {
    std::stop_source source;
    void operator()() { source.request_stop(); }
  };

  double limit_;
  bool started_ = false;
  std::chrono::steady_clock::time_point start_;
  std::uint64_t samples_ = 0;
  double seconds_ = 0;
  std::stop_source source_;
  std::stop_callback<Forward> forward_;
};

}  // namespace millrace::tools

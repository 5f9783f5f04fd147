// RunStop: what ends a run before its last epoch: a stop that was asked for, or its time limit.
// Both reach whoever waits for the input.
//
//   const RunStop stop(options);
//   const std::stop_callback on_stop(stop.token(), [&] { feed.stop(); });
//
// Threads: const members from any thread.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "io/base/clock.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

class RunStop {
 public:
  /// The time limit counts from here. `options` are borrowed.
  explicit RunStop(const TrainOptions& options);

  /// Requested once there is a reason; 100 ms after a time limit at the latest.
  std::stop_token token() const { return source_.get_token(); }
  /// "signal", "max-time"; empty while there is none.
  std::string reason() const;

 private:
  bool is_late() const;
  void watch(const std::stop_token& end);

  const TrainOptions& options_;
  Clock::TimePoint begin_;
  std::stop_source source_;
  std::stop_callback<std::function<void()>> forward_;
  std::jthread watch_;  ///< last: it uses the others
};

}  // namespace millrace::trainer::detail

// RunStop: why this process wants to end a run before its last epoch: a stop that was asked for,
// of it or by its launcher, or the time limit, which is process 0's. All reach whatever waits for
// the input.
//
//   const RunStop stop(options, cluster);
//   const std::stop_callback on_stop(stop.token(), [&] { feed.stop(); });
//
// Threads: const members from any thread.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "io/base/clock.h"
#include "trainer/cluster.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

class RunStop {
 public:
  /// The time limit counts from here. Both are borrowed.
  RunStop(const TrainOptions& options, const Cluster& cluster);

  /// Requested once there is a reason; 100 ms after a time limit, or a launcher's stop, at the
  /// latest.
  std::stop_token token() const { return source_.get_token(); }
  /// "signal", "max-time"; empty while there is none.
  std::string reason() const;

 private:
  bool is_late() const;
  void watch(const std::stop_token& end);

  const TrainOptions& options_;
  const Cluster& cluster_;
  Clock::TimePoint begin_;
  std::stop_source source_;
  std::stop_callback<std::function<void()>> forward_;
  std::jthread watch_;  ///< last: it uses the others
};

}  // namespace millrace::trainer::detail

// RunStop: the reasons to end a run before its last epoch: a requested stop, of this process or by
// its launcher, or the time limit (on process 0). Its token ends waits for the input.
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
  /// The time limit begins here. Both are borrowed.
  RunStop(const TrainOptions& options, const Cluster& cluster);

  /// Requested when there is a reason, at most 100 ms after a time limit or a launcher's stop.
  std::stop_token token() const { return source_.get_token(); }
  /// "signal", "max-time"; empty if there is none.
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

// RunStop: the reasons to end a run before its last epoch: a requested stop, of this process or by
// its launcher, or the time limit (on process 0). Its token ends waits for the input.
//
//   RunStop stop(options, processes);
//   const std::stop_callback on_stop(stop.token(), [&] { feed.stop(); });
//   if (ended_early) stop.agree();
//
// Threads: const members from any thread, but for stopped_by() and was_signal().
#pragma once

#include <exception>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "io/base/clock.h"
#include "trainer/detail/collectives/processes.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

class RunStop {
 public:
  /// The time limit begins here. Both are borrowed.
  RunStop(const TrainOptions& options, Processes& processes);

  /// Requested when there is a reason, at most 100 ms after a time limit or a launcher's stop.
  std::stop_token token() const { return source_.get_token(); }
  /// "signal", "max-time"; empty if there is none.
  std::string reason() const;

  /// Sets what the run was stopped by: a signal to any process counts before the time limit. After
  /// a pass that ended early, on every process.
  void agree();
  /// The same after an epoch of which the input may have failed: throws its fault, on every
  /// process, unless that was this stop.
  void agree(const std::exception_ptr& input_failure);
  /// As agreed on; empty if nothing was.
  const std::string& stopped_by() const { return stopped_by_; }
  bool was_signal() const { return stopped_by_ == "signal"; }

 private:
  bool is_late() const;
  void watch(const std::stop_token& end);

  const TrainOptions& options_;
  Processes& processes_;
  Clock::TimePoint begin_;
  std::string stopped_by_;
  std::stop_source source_;
  std::stop_callback<std::function<void()>> forward_;
  std::jthread watch_;  ///< last: it uses the others
};

}  // namespace millrace::trainer::detail

// SignalStop: SIGINT, SIGTERM and SIGUSR1 as a stop token. A second SIGINT or SIGTERM ends the
// process at once, unless it comes within a second: Slurm's time limit sends two within
// milliseconds, and a terminal's ^C reaches a process beside what its launcher passes on. SIGUSR1,
// which a scheduler sends ahead of its time limit, and more than once where a launcher passes it
// on, does not.
//
//   int main() {
//     hold_signals();              // first: early signals stay pending
//     const SignalStop signals;    // before any thread
//
// Threads created later inherit the blocked signals, and one dedicated thread waits for them, so no
// handler ever interrupts anything.
//
// Threads: every const member may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <stop_token>
#include <thread>

namespace millrace::tools {

/// From here on these signals stay pending until a SignalStop takes them, even across an exec.
/// A closed connection, `| head`, and the file size limit (ulimit -f) become errors instead of
/// fatal signals.
void hold_signals();

class SignalStop {
 public:
  /// Calls hold_signals(). Throws: Io.
  SignalStop();
  ~SignalStop();
  SignalStop(const SignalStop&) = delete;
  SignalStop& operator=(const SignalStop&) = delete;

  std::stop_token token() const { return source_.get_token(); }
  /// The signal that arrived first, or 0.
  int signal() const { return signal_.load(); }
  /// Handles a signal that another process of the run received as if this one had.
  void tell(int signal);
  /// Requests the stop without a signal: another process has ended the run.
  void stop() { source_.request_stop(); }

 private:
  void wait();
  void take(int signal);

  std::stop_source source_;
  std::atomic<int> signal_ = 0;
  /// Of the first SIGINT or SIGTERM: a later one ends the process. The waiter's own.
  std::optional<std::chrono::steady_clock::time_point> first_ = {};
  int signals_ = -1;  // a signalfd
  int end_ = -1;      // an eventfd, since anyone could send a signal
  std::jthread waiter_;
};

}  // namespace millrace::tools

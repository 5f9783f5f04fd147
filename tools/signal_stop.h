// SignalStop: SIGINT and SIGTERM as a stop token; a second signal ends the process at once.
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
#include <stop_token>
#include <thread>

namespace millrace::tools {

/// From here on SIGINT and SIGTERM stay pending until a SignalStop takes them, even across an exec.
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
  /// The signal that arrived, or 0.
  int signal() const { return signal_.load(); }

 private:
  void wait();

  std::stop_source source_;
  std::atomic<int> signal_ = 0;
  int signals_ = -1;  // a signalfd
  int end_ = -1;      // an eventfd, since anyone could send a signal
  std::thread waiter_;
};

}  // namespace millrace::tools

// SignalStop: SIGINT and SIGTERM as a stop token; the second one ends the process at once.
//
//   int main() {
//     hold_signals();              // first: what comes before anybody listens is kept
//     const SignalStop signals;    // before any thread
//
// Threads made later inherit the blocked signals, and one thread of our own waits for them, so no
// handler ever interrupts anything.
//
// Threads: every const member may be called from any thread.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace millrace::tools {

/// SIGINT and SIGTERM wait from here on until a SignalStop takes them, over an exec too. A peer
/// that closes a connection, `| head`, and a file that may not grow (ulimit -f) are errors to
/// report and no reasons to die.
void hold_signals();

class SignalStop {
 public:
  /// Holds signals, too. Throws: Io.
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
  int end_ = -1;      // an eventfd: no signal, which anybody could send
  std::thread waiter_;
};

}  // namespace millrace::tools

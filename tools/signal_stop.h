// SignalStop: SIGINT and SIGTERM as a stop token; the second one ends the process at once.
//
// Made first thing in main, before any thread: threads made later inherit the blocked signals, and
// one thread of our own waits for them, so no handler ever interrupts anything.
//
// Threads: every const member may be called from any thread.
#pragma once

#include <atomic>
#include <stop_token>
#include <thread>

namespace millrace::tools {

class SignalStop {
 public:
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
  std::thread waiter_;
};

}  // namespace millrace::tools

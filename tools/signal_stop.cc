#include "tools/signal_stop.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

namespace millrace::tools {
namespace {

/// Ends the waiter; nobody else sends it.
constexpr int kEndSignal = SIGUSR2;

sigset_t awaited() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, kEndSignal);
  return set;
}

}  // namespace

SignalStop::SignalStop() {
  const sigset_t set = awaited();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  // A peer that closes a connection, or `| head`, is an error to report, not a reason to die.
  ::signal(SIGPIPE, SIG_IGN);
  waiter_ = std::thread([this] { wait(); });
}

SignalStop::~SignalStop() {
  pthread_kill(waiter_.native_handle(), kEndSignal);
  waiter_.join();
}

void SignalStop::wait() {
  const sigset_t set = awaited();
  while (true) {
    int arrived = 0;
    if (sigwait(&set, &arrived) != 0) continue;
    if (arrived == kEndSignal) return;
    if (signal_.load() != 0) ::_exit(128 + arrived);
    signal_.store(arrived);
    source_.request_stop();
  }
}

}  // namespace millrace::tools

#include "tools/signal_stop.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "io/base/error.h"
#include "io/base/threads.h"

namespace millrace::tools {
namespace {

sigset_t awaited() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

}  // namespace

void hold_signals() {
  const sigset_t set = awaited();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
}

SignalStop::SignalStop() {
  hold_signals();
  const sigset_t set = awaited();
  signals_ = ::signalfd(-1, &set, SFD_CLOEXEC);
  end_ = ::eventfd(0, EFD_CLOEXEC);
  if (signals_ < 0 || end_ < 0) throw_errno("wait for", "signals", errno);
  waiter_ = start_thread("to wait for signals", [this] { wait(); });
}

SignalStop::~SignalStop() {
  ::eventfd_write(end_, 1);
  waiter_.join();
  ::close(end_);
  ::close(signals_);
}

void SignalStop::wait() {
  std::array<pollfd, 2> both{{{.fd = signals_, .events = POLLIN, .revents = 0},
                              {.fd = end_, .events = POLLIN, .revents = 0}}};
  while (true) {
    if (::poll(both.data(), both.size(), -1) < 0) continue;
    signalfd_siginfo arrived{};
    if (both[0].revents != 0 && ::read(signals_, &arrived, sizeof arrived) == sizeof arrived) {
      take(static_cast<int>(arrived.ssi_signo));
    } else if (both[1].revents != 0) {
      return;
    }
  }
}

void SignalStop::take(int signal) {
  constexpr std::chrono::seconds kSameStop{1};
  if (signal != SIGUSR1) {
    const auto now = std::chrono::steady_clock::now();
    if (first_ && now - *first_ > kSameStop) ::_exit(128 + signal);
    if (!first_) first_ = now;
  }
  tell(signal);
}

void SignalStop::tell(int signal) {
  int none = 0;
  signal_.compare_exchange_strong(none, signal);
  source_.request_stop();
}

}  // namespace millrace::tools

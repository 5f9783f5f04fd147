// StopEvent: a stop token as a file descriptor, so that poll() can wait for data and stop at once.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <stop_token>

#include "io/base/clock.h"
#include "io/base/error.h"
#include "io/detail/files/unique_fd.h"

namespace millrace::io::detail {

class StopEvent {
 public:
  explicit StopEvent(const std::stop_token& stop)
      : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), callback_(stop, Signal{event_.get()}) {
    if (!event_) throw_errno("create", "an event descriptor", errno);
  }

  /// Waits until `fd` is readable, at its end or in error; false if it is not by `until`. Throws:
  /// Cancelled.
  bool wait_readable(int fd, Clock::TimePoint until) const {
    std::array<pollfd, 2> both{{{.fd = fd, .events = POLLIN, .revents = 0},
                                {.fd = event_.get(), .events = POLLIN, .revents = 0}}};
    while (::poll(both.data(), both.size(), left_ms(until)) < 0 && errno == EINTR) {
    }
    if (both[1].revents != 0) throw Error(ErrorCode::kCancelled, "reading was stopped");
    return both[0].revents != 0;
  }

 private:
  static int left_ms(Clock::TimePoint until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::system().now());
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kMost));
  }

  struct Signal {
    int fd;
    void operator()() const noexcept {
      const std::uint64_t one = 1;
      // A full eventfd has already been signalled.
      static_cast<void>(::write(fd, &one, sizeof one) + 0);
    }
  };

  UniqueFd event_;
  std::stop_callback<Signal> callback_;  // last: it writes to the event
};

}  // namespace millrace::io::detail

// StopEvent: a stop token as a file descriptor, so that poll() can wait for data and stop at once.
#pragma once

#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <stop_token>

#include "io/base/error.h"
#include "io/detail/files/unique_fd.h"

namespace millrace::io::detail {

class StopEvent {
 public:
  explicit StopEvent(const std::stop_token& stop)
      : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), callback_(stop, Signal{event_.get()}) {
    if (!event_) throw_errno("create", "an event descriptor", errno);
  }

  /// Waits until `fd` is readable, at its end or in error. Throws: Cancelled.
  void wait_readable(int fd) const {
    std::array<pollfd, 2> both{{{.fd = fd, .events = POLLIN, .revents = 0},
                                {.fd = event_.get(), .events = POLLIN, .revents = 0}}};
    while (::poll(both.data(), both.size(), -1) < 0 && errno == EINTR) {
    }
    if (both[1].revents != 0) throw Error(ErrorCode::kCancelled, "reading was stopped");
  }

 private:
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

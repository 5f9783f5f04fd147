// StreamPatience: how long a pipe, FIFO or standard input is waited for, and when that is said.
//
// Threads: a value; `say` is called from any.
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace millrace::io::detail {

struct StreamPatience {
  /// A wait without a byte is an Io fault after this. Nothing can be asked for again, so there is
  /// no second try.
  std::chrono::milliseconds limit{60'000};
  /// It is said after this.
  std::chrono::milliseconds said_after{2'000};
  /// Called then: what is waited for, and how long it has been. Empty: nothing is said.
  std::function<void(const std::string& name, const std::string& what,
                     std::chrono::milliseconds waited)>
      say = {};
};

}  // namespace millrace::io::detail

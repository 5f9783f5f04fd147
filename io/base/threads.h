// Starting threads where there may be none: a container's limit of processes, or of memory.
//
//   const std::jthread reader = start_thread("to read shards", [&] { ... });
//   run_on_threads(16, [&] { while (step()) continue; });
//
// Threads: any.
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace millrace {

/// Throws: Exhausted, "no thread to be had PURPOSE: ...", with the limits that may be the cause.
[[noreturn]] void throw_no_thread(std::string_view purpose, const std::error_code& cause);

/// As std::jthread(body); `purpose` says what for: "to read shards". Throws: Exhausted.
template <typename Body>
std::jthread start_thread(std::string_view purpose, Body&& body) {
  try {
    return std::jthread(std::forward<Body>(body));
  } catch (const std::system_error& none) {
    throw_no_thread(purpose, none.code());
  }
}

/// Runs `work` on this thread and on up to `count` - 1 others at once, and returns when all have
/// ended: on fewer where there are no more threads. Requires: work() does not throw.
void run_on_threads(std::size_t count, const std::function<void()>& work);

}  // namespace millrace

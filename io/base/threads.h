// Starting threads where there may be none: a container's limit of processes, or of memory.
//
//   const std::jthread reader = start_thread("to read shards", [&] { ... });
//   run_on_threads(16, [&] { while (step()) continue; });
//
// Threads: any.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <future>
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

/// The same of a thread that runs `enter` and then `serve`. Returns when enter() has; what it
/// throws is thrown here, once the thread has ended. Requires: serve() does not throw.
template <typename Enter, typename Serve>
std::jthread start_thread(std::string_view purpose, Enter enter, Serve serve) {
  std::promise<void> entry;
  std::future<void> entered = entry.get_future();
  std::jthread thread = start_thread(purpose, [entry = std::move(entry), enter = std::move(enter),
                                               serve = std::move(serve)]() mutable {
    try {
      enter();
    } catch (...) {
      return entry.set_exception(std::current_exception());
    }
    entry.set_value();
    serve();
  });
  entered.get();
  return thread;
}

/// Runs `work` on this thread and on up to `count` - 1 others at once, and returns when all have
/// ended: on fewer where there are no more threads. Requires: work() does not throw.
void run_on_threads(std::size_t count, const std::function<void()>& work);

}  // namespace millrace

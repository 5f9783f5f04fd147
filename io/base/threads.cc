#include "io/base/threads.h"

#include <string>
#include <vector>

#include "io/base/error.h"

namespace millrace {

void throw_no_thread(std::string_view purpose, const std::error_code& cause) {
  throw Error(ErrorCode::kExhausted,
              "no thread to be had " + std::string(purpose) + ": " + cause.message() +
                  "; raise the limit of processes (ulimit -u) or of memory (ulimit -v), or use "
                  "fewer threads");
}

void run_on_threads(std::size_t count, const std::function<void()>& work) {
  std::vector<std::jthread> others;
  others.reserve(count);
  try {
    while (others.size() + 1 < count) others.emplace_back([&work] { work(); });
  } catch (const std::system_error&) {  // those that there are do it all
  }
  work();
}

}  // namespace millrace

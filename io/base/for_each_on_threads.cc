#include "io/base/for_each_on_threads.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <vector>

#include "io/base/threads.h"

namespace millrace {

void for_each_on_threads(std::size_t count, std::size_t most_threads,
                         const std::function<void(std::size_t i)>& work) {
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next{0};
  run_on_threads(std::min(most_threads, count), [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

}  // namespace millrace

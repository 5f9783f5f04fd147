#include "python/process_guard.h"

#include <unistd.h>

#include <atomic>
#include <stdexcept>

namespace millrace::python {
namespace {

/// 0: no thread was started yet. A property of the process, and so global.
std::atomic<pid_t> g_started_in{0};

}  // namespace

void ProcessGuard::enter() {
  pid_t none = 0;
  if (!g_started_in.compare_exchange_strong(none, getpid()) && none != getpid())
    throw std::runtime_error(
        "this process was forked from one in which millrace had started its threads, and has none "
        "of them: start it by spawn (multiprocessing.get_context(\"spawn\"), or "
        "DataLoader(multiprocessing_context=\"spawn\")), or fork before the first batch is read");
}

bool ProcessGuard::is_forked_child() {
  const pid_t started_in = g_started_in;
  return started_in != 0 && started_in != getpid();
}

}  // namespace millrace::python

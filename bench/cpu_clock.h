// The clock of benchmarks on a shared machine.
#pragma once

#include <omp.h>
#include <time.h>

namespace millrace::bench {

/// Seconds: the process's CPU time with one thread, where waiting for a core must not count; the
/// wall's with several, where CPU time would count what waits inside a team.
inline double now() {
  timespec time{};
  ::clock_gettime(omp_get_max_threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace millrace::bench

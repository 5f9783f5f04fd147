// The clock of benchmarks on a shared machine.
#pragma once

#include <omp.h>

#include "bench/clock_seconds.h"

namespace millrace::bench {

/// Seconds: the process's CPU time with one thread, where waiting for a core must not count; the
/// wall's with several, where CPU time would count what waits inside a team.
inline double now() {
  return clock_seconds(omp_get_max_threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC);
}

}  // namespace millrace::bench

// The clock for benchmarks on a shared machine.
#pragma once

#include <omp.h>

#include "bench/clock_seconds.h"

namespace millrace::bench {

/// Seconds: with one thread the process's CPU time, so that waiting for a core does not count; with
/// several wall time, since CPU time would include threads that wait inside a team.
inline double now() {
  return clock_seconds(omp_get_max_threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC);
}

}  // namespace millrace::bench

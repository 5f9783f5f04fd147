// The time of a POSIX clock in seconds.
#pragma once

#include <time.h>

namespace millrace::bench {

inline double clock_seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace millrace::bench

// For tests with little memory: a limit on the address space. None under a sanitizer
// (tests/support/effort.h).
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>

namespace millrace::testing {

/// Leaves this process `more` bytes of address space beside those that it has. In a death test
/// alone.
inline void limit_address_space(std::uint64_t more) {
  std::uint64_t pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  const rlimit limit{pages * 4096 + more, RLIM_INFINITY};
  setrlimit(RLIMIT_AS, &limit);
}

}  // namespace millrace::testing

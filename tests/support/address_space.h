// For tests with little memory: how much address space is used, and whether it can be
// limited.
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <cstdio>

namespace millrace::testing {

// Sanitizers need the whole address space.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
#else
constexpr bool kSanitized = false;
#endif

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

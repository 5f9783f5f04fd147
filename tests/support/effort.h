// How much a test tries of what it could try without end.
#pragma once

#include <cstdlib>

namespace millrace::testing {

// Sanitizers need the whole address space, memory of their own, and ten times as long.
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

/// True in the long suite (the tests with CTest's label "long"), which tries more of the cases.
inline bool is_long() { return std::getenv("MILLRACE_LONG") != nullptr; }

/// How many of `cases` a test tries: fewer under a sanitizer.
template <typename Number>
constexpr Number thinned(Number cases) {
  return kSanitized ? (cases + 4) / 5 : cases;
}

}  // namespace millrace::testing

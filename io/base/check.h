// Checks for a caller's bug: they print what was expected and where, and abort.
//
// Bad data is never a bug: that is an Error. MILLRACE_CHECK stands at doors (public functions);
// MILLRACE_DCHECK in hot loops, and is gone under NDEBUG.
#pragma once

namespace millrace::detail {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const char* message);

}  // namespace millrace::detail

/// Aborts with `message` unless `condition` holds.
#define MILLRACE_CHECK(condition, message) \
  ((condition) ? static_cast<void>(0)      \
               : ::millrace::detail::check_failed(__FILE__, __LINE__, #condition, message))

#ifdef NDEBUG
#define MILLRACE_DCHECK(condition, message) static_cast<void>(0)
#else
#define MILLRACE_DCHECK(condition, message) MILLRACE_CHECK(condition, message)
#endif

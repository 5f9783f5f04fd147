// Checks for bugs in the caller: a failed check prints condition, message and place, and aborts.
//
// Bad data is never a bug: it is an Error. MILLRACE_CHECK guards public functions; MILLRACE_DCHECK
// is for hot loops and compiles to nothing under NDEBUG.
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

// ProcessGuard: which process started threads of millrace.
//
// A child that fork() made has none of them, but their locks as they were: it can use nothing that
// its parent started, not even destroy it.
//
// Threads: any.
#pragma once

namespace millrace::python {

class ProcessGuard {
 public:
  /// Called before threads start. Throws: std::runtime_error, with the remedy, in a process that
  /// was forked from one that had called it.
  static void enter();
  /// Whether this process was forked from one that had called enter().
  static bool is_forked_child();
};

}  // namespace millrace::python

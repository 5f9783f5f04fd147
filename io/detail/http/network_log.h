// NetworkLog: tells the user about retries and long waits. Each url and reason is logged once, the
// rest are counted.
//
// Threads: every member may be called from any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

#include "io/base/clock.h"
#include "io/base/log.h"
#include "io/base/thread_annotations.h"

namespace millrace::io::detail {

class NetworkLog {
 public:
  explicit NetworkLog(Log log) : log_(std::move(log)) {}

  /// Logs a retry. `name`: the printable url. `patience`: how long it is retried.
  void retry(const std::string& name, const std::string& reason, std::chrono::milliseconds patience)
      MILLRACE_EXCLUDES(mutex_);
  /// Logs that a part which takes long was asked for a second time.
  void second_request(const std::string& name) MILLRACE_EXCLUDES(mutex_);
  /// Warns, once per server, that an object is read by several requests that may be answered with
  /// different versions of it.
  void unversioned(const std::string& name) MILLRACE_EXCLUDES(mutex_);
  /// Logs that a reader has waited for `waited`; `what` says for what. At most one line per 30 s.
  void wait(const std::string& name, const std::string& what, std::chrono::milliseconds waited)
      MILLRACE_EXCLUDES(mutex_);

 private:
  const Log log_;
  Mutex mutex_;
  std::set<std::string> said_ MILLRACE_GUARDED_BY(mutex_);
  std::set<std::string> unversioned_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t retries_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t second_requests_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Clock::TimePoint next_wait_ MILLRACE_GUARDED_BY(mutex_){};
};

}  // namespace millrace::io::detail

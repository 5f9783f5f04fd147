// NetworkLog: what a user should know of the network while it works: what is tried again, and what
// is waited for. Each url and reason is said once, the rest are counted.
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

  /// `name`: a url that may be printed. `patience`: how long it is tried.
  void retry(const std::string& name, const std::string& reason, std::chrono::milliseconds patience)
      MILLRACE_EXCLUDES(mutex_);
  /// A reader has waited for `waited`; `what` says for what.
  void wait(const std::string& name, const std::string& what, std::chrono::milliseconds waited)
      MILLRACE_EXCLUDES(mutex_);

 private:
  const Log log_;
  Mutex mutex_;
  std::set<std::string> said_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t retries_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Clock::TimePoint next_wait_ MILLRACE_GUARDED_BY(mutex_){};
};

}  // namespace millrace::io::detail

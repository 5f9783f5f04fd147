// HttpServers: what an opener has learnt of the servers it talks to: which have answered, how far
// away they are, and how long a part of an object takes.
//
// Threads: every member may be called from any thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "io/base/clock.h"
#include "io/base/thread_annotations.h"

namespace millrace::io::detail {

/// How long a response took, since it was asked for: to its head, and to its last byte.
struct ResponseTimes {
  Clock::Duration head{};
  Clock::Duration whole{};
};

class HttpServers {
 public:
  /// Whether the server of that url's host and port has answered before; answered() records that it
  /// has.
  bool has_answered(const std::string& url) const MILLRACE_EXCLUDES(mutex_);
  void answered(const std::string& url) MILLRACE_EXCLUDES(mutex_);
  /// To that url's host and back, the least of all that were measured: on a busy link packets wait.
  /// 0 while it is unknown.
  Clock::Duration round_trip(const std::string& url) const MILLRACE_EXCLUDES(mutex_);
  void measured(const std::string& url, Clock::Duration round_trip) MILLRACE_EXCLUDES(mutex_);
  /// Whether the last object that a url of that host named, wherever redirects led, could be read
  /// in parts.
  bool gives_parts(const std::string& url) const MILLRACE_EXCLUDES(mutex_);
  void set_gives_parts(const std::string& url, bool gives) MILLRACE_EXCLUDES(mutex_);
  /// Records what a part took.
  void took(const std::string& url, ResponseTimes times) MILLRACE_EXCLUDES(mutex_);
  /// From when on a part is slow: three times the 95th percentile of the last ones, at least 500
  /// ms. Nullopt while there were fewer than 20.
  std::optional<ResponseTimes> slow_after(const std::string& url) const MILLRACE_EXCLUDES(mutex_);

 private:
  struct Server {
    Clock::Duration round_trip{};
    bool gives_parts = false;
    std::size_t num_parts = 0;
    std::array<ResponseTimes, 64> parts = {};  // the last ones; num_parts % 64 is the next's place
  };
  Server known(const std::string& url) const MILLRACE_REQUIRES(mutex_);
  Server* remember(const std::string& url) MILLRACE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Server> servers_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::io::detail

// HttpOptions: how to talk to HTTP(S) servers: time limits, retry, buffers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "io/base/clock.h"
#include "io/base/log.h"

namespace millrace::io {

struct RetryOptions {
  /// How long a reader goes on trying without a new byte before the fault is given up to it. A try
  /// in flight is cut short by it too, so that a server that never answers costs no more. 0: the
  /// first fault is final.
  std::chrono::milliseconds patience{60'000};
  /// The first wait's ceiling; each later one doubles up to `max_backoff`, with full jitter.
  std::chrono::milliseconds first_backoff{500};
  std::chrono::milliseconds max_backoff{20'000};
  /// A server's Retry-After is waited for, up to this: once beyond the patience as well, and then
  /// the next try is the last.
  std::chrono::milliseconds max_retry_after{300'000};
  /// All readers of an opener share one bucket of retries: so many at once, and so many a second.
  /// Who finds it empty waits longer.
  double burst = 64.0;
  double per_second = 16.0;
};

struct HttpOptions {
  /// A host's name that has never been resolved is given up after this, whatever the patience is:
  /// it is most likely misspelt. One that was resolved before is tried as long as other faults are.
  std::chrono::milliseconds resolve_timeout{4'000};
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds first_byte_timeout{30'000};
  /// A transfer whose rate over this long is below `stall_bytes_per_s` is broken off and resumed.
  /// What so slow a transfer brings is no progress: several in a row use up the patience.
  std::chrono::milliseconds stall_timeout{30'000};
  std::uint64_t stall_bytes_per_s = 1024;
  RetryOptions retry = {};
  /// Received bytes kept for each reader; the transfer pauses when they are not taken.
  std::size_t buffer_bytes = std::size_t{4} << 20;
  int max_redirects = 5;
  /// Sent with each request, and dropped when a redirect changes host, port or scheme.
  std::map<std::string, std::string> headers = {};
  /// PEM file of the authorities to trust; empty: the system's.
  std::string ca_file = {};
  /// Waits between tries; borrowed, and lives as long as the opener and its sources.
  const Clock* clock = &Clock::system();
  /// Told of retries, each url and reason once, and of waits over 2 s. Urls come without their
  /// query.
  Log log = {};
};

}  // namespace millrace::io

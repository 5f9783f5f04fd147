// HttpOptions: how to talk to HTTP(S) servers: time limits, retry, buffers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "io/base/clock.h"

namespace millrace::io {

struct RetryOptions {
  /// Tries in a row without a new byte before the fault is given up to the reader ...
  int max_tries = 8;
  /// ... and the least time they take together: with full jitter alone, one reader in fifty would
  /// use up its tries within 10 s, which a server's restart may take.
  std::chrono::milliseconds patience{30'000};
  /// The first wait's ceiling; each later one doubles up to `max_backoff`, with full jitter.
  std::chrono::milliseconds first_backoff{500};
  std::chrono::milliseconds max_backoff{20'000};
  /// A server's Retry-After is waited for, up to this.
  std::chrono::milliseconds max_retry_after{300'000};
  /// All readers of an opener share one bucket of retries: so many at once, and so many a second.
  /// Who finds it empty waits longer.
  double burst = 64.0;
  double per_second = 16.0;
};

struct HttpOptions {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds first_byte_timeout{30'000};
  /// A transfer slower than `stall_bytes_per_s` for this long is broken off and resumed.
  std::chrono::seconds stall_timeout{30};
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
};

}  // namespace millrace::io

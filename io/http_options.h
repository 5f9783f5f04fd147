// HttpOptions: how to talk to HTTP(S) servers: time limits, retry, buffers. Defaults are
// FAULTS.md's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "io/base/clock.h"

namespace millrace::io {

struct RetryOptions {
  /// Tries in a row without a new byte before the fault is given up to the reader.
  int max_tries = 8;
  /// The first wait's ceiling; each later one doubles up to `max_backoff`, with full jitter.
  std::chrono::milliseconds first_backoff{500};
  std::chrono::milliseconds max_backoff{20'000};
};

struct HttpOptions {
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds first_byte_timeout{30'000};
  /// A transfer slower than `stall_bytes_per_s` for this long is broken off and resumed.
  std::chrono::seconds stall_timeout{30};
  std::uint64_t stall_bytes_per_s = 1024;
  RetryOptions retry = {};
  /// Received bytes kept for each reader; the transfer pauses when they are not taken.
  std::size_t buffer_bytes = 4 * 1024 * 1024;
  int max_redirects = 5;
  /// Sent with each request, and dropped when a redirect changes host, port or scheme.
  std::map<std::string, std::string> headers = {};
  /// Waits between tries; borrowed.
  const Clock* clock = &Clock::system();
};

}  // namespace millrace::io

// HttpOptions: time limits, retries and buffers for HTTP(S).
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
  /// How long a reader keeps trying without a new byte before the fault is thrown. It also cuts
  /// short a try in flight, so that a server that never answers costs no more. 0: the first fault
  /// is final.
  std::chrono::milliseconds patience{60'000};
  /// Upper bound of the first wait; it doubles with each try up to `max_backoff`, with full jitter.
  std::chrono::milliseconds first_backoff{500};
  std::chrono::milliseconds max_backoff{20'000};
  /// A server's Retry-After is honoured up to this, and never beyond the patience: the try at its
  /// end is the last.
  std::chrono::milliseconds max_retry_after{300'000};
  /// All readers of an opener share one token bucket of retries: its size, and its refill rate per
  /// second. A reader that finds it empty waits longer, within its patience.
  double burst = 64.0;
  double per_second = 16.0;
};

struct HttpOptions {
  /// A host name that has never resolved is given up after this, whatever the patience is: it is
  /// most likely misspelt. One that resolved before is retried like other faults.
  std::chrono::milliseconds resolve_timeout{4'000};
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds first_byte_timeout{30'000};
  /// A transfer whose rate over this window is below `stall_bytes_per_s` is aborted and resumed.
  /// Its bytes do not count as progress: several such transfers in a row use up the patience.
  std::chrono::milliseconds stall_timeout{30'000};
  std::uint64_t stall_bytes_per_s = 1024;
  RetryOptions retry = {};
  /// Receive buffer of each reader, in bytes; the transfer pauses while it is full.
  std::size_t buffer_bytes = std::size_t{4} << 20;
  /// From this round trip on, an object whose version the server tells by a strong ETag is read by
  /// several requests at a time, for parts of at most 4 MiB and `buffer_bytes`. A nearer one is
  /// read by one request.
  std::chrono::microseconds far_round_trip{5'000};
  /// What all readers of an opener may have in flight that way, besides a buffer each, in bytes. 0:
  /// every object is read by one request.
  std::size_t ahead_bytes = std::size_t{64} << 20;
  int max_redirects = 5;
  /// Sent with each request; dropped once a redirect changes host, port or scheme.
  std::map<std::string, std::string> headers = {};
  /// PEM file of the certificate authorities to trust. Empty: the one that `SSL_CERT_FILE` names,
  /// else the system's.
  std::string ca_file = {};
  /// Used for the waits between tries. Borrowed: it must outlive the opener and its sources.
  const Clock* clock = &Clock::system();
  /// By which a transfer under way is slow, stalled or late. Borrowed likewise.
  const Clock* transfer_clock = &Clock::system();
  /// Receives retries (each url and reason once) and waits over 2 s. Urls are logged without their
  /// query.
  Log log = {};
};

}  // namespace millrace::io

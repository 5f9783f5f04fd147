// HttpTransfer: one request and its response, shared by the event loop that receives it and the
// reader that consumes it.
//
// From libcurl's callbacks the loop's thread fills the memory of a reader that waits, and otherwise
// a ring buffer. When that is full the transfer pauses, and continues once the reader has taken
// enough (HttpLoop::resume). Of the body of an error response the first 64 KiB are kept, for what
// they say about the refusal.
//
// A request body is read on the loop's thread.
//
// Threads: the reader's members from one thread, the loop's from the loop's thread. Buffers:
// HttpOptions::buffer_bytes; a reader that keeps up does not touch them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/clock.h"
#include "io/base/thread_annotations.h"
#include "io/bytes.h"
#include "io/detail/files/ring_buffer.h"
#include "io/detail/files/unique_fd.h"
#include "io/detail/http/curl.h"
#include "io/detail/http/http_head.h"
#include "io/detail/http/http_servers.h"
#include "io/detail/http/network_log.h"
#include "io/detail/http/stall_watch.h"
#include "io/http_options.h"

namespace millrace::io::detail {

/// What a request sends. `read` copies bytes from `offset` on into its buffer and returns how many;
/// nullopt: they cannot be read. Threads: called on the loop's thread.
struct HttpBody {
  std::function<std::optional<std::size_t>(std::span<std::byte> into, std::uint64_t offset)> read;
  std::uint64_t bytes = 0;
};

/// The first `bytes` of a file.
HttpBody file_body(std::shared_ptr<const UniqueFd> file, std::uint64_t bytes);
HttpBody memory_body(Bytes content);

struct HttpRequest {
  std::string method = "GET";
  std::string url = {};   ///< HttpExchange sets it: its target's, then those of redirects
  std::string name = {};  ///< the target's, which messages show; HttpExchange sets it
  /// Complete lines: "Range: bytes=5-". They go to every host along the redirects; the target's
  /// secret lines only to its own.
  std::vector<std::string> header_lines = {};
  std::optional<HttpBody> body = {};
  /// SHA-256 of the body in hex, for stores that sign it.
  std::string body_sha256 = {};
  bool path_as_is = false;  ///< as HttpTarget's; HttpExchange sets it
  /// HTTP/1.1, and so a connection that no other request in flight shares.
  bool own_connection = false;
  /// Shortens the options' time limits for resolving, connecting and the first byte.
  std::optional<Clock::Duration> limit = {};
};

/// How a transfer ended at the transport level; the HTTP status is in the head.
struct TransferEnd {
  bool ok = false;
  /// Whether another try may succeed.
  bool retry = true;
  std::string message = {};
  /// The host's name was not resolved.
  bool unresolved = false;
  /// It was aborted for being too slow.
  bool stalled = false;
};

class HttpTransfer {
 public:
  /// `options` and `news` are borrowed; `news` receives long waits.
  HttpTransfer(const HttpRequest& request, const HttpOptions& options, NetworkLog& news);
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;

  /// Of a transfer with such options.
  static std::size_t buffer_bytes(const HttpOptions& options);

  // The reader's side. The functions that take `stop` block, and throw Cancelled once it is
  // requested.

  /// What is awaited of a response.
  enum class Awaited { kHead, kBody };

  /// The response's head; nullopt if the transfer failed before it was complete.
  std::optional<HttpHead> wait_for_head(const std::stop_token& stop);
  /// Reads some bytes of the body. Returns 0 when there are no more; wait_for_end() says why.
  std::size_t read(std::span<std::byte> into, const std::stop_token& stop);
  /// What an error response's body says. Waits for its end, at most 1 s.
  std::string error_text(const std::stop_token& stop);
  /// Waits until the transfer has ended.
  TransferEnd wait_for_end(const std::stop_token& stop);
  /// Waits at most until `until` for the head or for bytes of the body; whether there are any, or
  /// the transfer has ended.
  bool wait_until(Awaited what, Clock::TimePoint until, const std::stop_token& stop);
  /// The head as far as it has arrived, and its status once it is complete, 0 before.
  HttpHead head() const;
  long status() const;
  /// Whether the transfer has ended, or as much of the body has arrived as the buffer holds.
  bool settled() const;
  bool has_failed() const;
  Clock::TimePoint asked_at() const { return asked_at_; }
  /// How long it took to the head and to the last byte so far.
  ResponseTimes times() const;
  /// To the server and back, as a connection that was made for this has seen at best; nullopt until
  /// the head has arrived, and for a connection that was there.
  std::optional<Clock::Duration> round_trip() const;
  /// Returns true, once, when a pause should end: at least half of the buffer is free again.
  bool wants_resume();
  /// The reader is gone; anything still received is refused.
  void abandon();

  // The loop's side.

  CURL* handle() const { return easy_.get(); }
  /// Ends a pause. May call back with body data at once.
  void go_on();
  /// Wakes a reader that waits for data, if there is any.
  void announce();
  /// The same, if nothing has come since the last call.
  void announce_if_still();
  /// Why the transfer must be aborted now; nullopt while it may continue.
  std::optional<TransferEnd> overdue();
  void finish(CURLcode code);
  void finish(TransferEnd end);

 private:
  static std::size_t on_header(char* data, std::size_t size, std::size_t count,
                               void* self) noexcept;
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self) noexcept;
  static std::size_t on_send(char* data, std::size_t size, std::size_t count, void* self) noexcept;
  static int on_socket(void* self, curl_socket_t socket, curlsocktype purpose) noexcept;
  static int on_seek(void* self, curl_off_t offset, int origin) noexcept;

  void set_options(const HttpRequest& request);
  void set_body(const std::string& method);
  Clock::Duration limited(Clock::Duration limit) const;
  std::optional<TransferEnd> overdue_to_connect(Clock::TimePoint now);
  void take_header(std::string_view line);
  std::size_t take_body(std::span<const std::byte> data);
  std::size_t hand_to_reader(std::span<const std::byte> data);
  void push(std::span<const std::byte> data);
  void count(std::size_t bytes) MILLRACE_REQUIRES(mutex_);
  bool has_data() const MILLRACE_REQUIRES(mutex_) { return handed_ > 0 || ring_.size() > 0; }
  std::size_t take_back_room() MILLRACE_REQUIRES(mutex_);
  template <typename Ready>
  void wait(MutexLock& lock, const std::stop_token& stop, Ready ready) MILLRACE_REQUIRES(mutex_);
  std::string awaited() const MILLRACE_REQUIRES(mutex_);

  const HttpOptions& options_;
  NetworkLog& news_;
  const std::string name_;
  const std::string server_;  // url_host() of the url
  const std::optional<HttpBody> body_;
  const std::optional<Clock::Duration> limit_;
  const Clock::TimePoint asked_at_ = Clock::system().now();
  CurlEasy easy_;
  CurlList headers_;
  char error_text_[CURL_ERROR_SIZE] = {};

  // Used only on the loop's thread: bytes sent, bytes received at the last look, the socket of a
  // new connection, and state of overdue().
  std::uint64_t sent_ = 0;
  std::uint64_t seen_ = 0;
  curl_socket_t socket_ = CURL_SOCKET_BAD;
  std::optional<Clock::TimePoint> started_;
  std::optional<Clock::TimePoint> asked_;
  StallWatch body_rate_;
  StallWatch upload_rate_;

  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  HttpHead head_ MILLRACE_GUARDED_BY(mutex_);
  RingBuffer ring_ MILLRACE_GUARDED_BY(mutex_);
  // The memory of a reader that waits, and how much of it is filled.
  std::span<std::byte> room_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t handed_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::optional<TransferEnd> end_ MILLRACE_GUARDED_BY(mutex_);
  std::uint64_t received_ MILLRACE_GUARDED_BY(mutex_) = 0;
  ResponseTimes times_ MILLRACE_GUARDED_BY(mutex_);
  std::optional<Clock::Duration> round_trip_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t wanted_ MILLRACE_GUARDED_BY(mutex_) = 0;
  bool paused_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool abandoned_ MILLRACE_GUARDED_BY(mutex_) = false;
};

}  // namespace millrace::io::detail

#include "io/detail/http/http_transfer.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "io/base/error.h"
#include "io/detail/http/url.h"

namespace millrace::io::detail {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;

// A reader that waits longer logs it.
constexpr milliseconds kLongWait{2'000};
// A waiting reader is woken once this much has arrived, or for whatever is there when its socket is
// drained: a wake-up for each of libcurl's 16 KiB pieces would cost more than copying
// them.
constexpr std::size_t kWorthWaking = std::size_t{256} << 10;
// libcurl hands over at most CURL_MAX_WRITE_SIZE at once; a smaller buffer would pause forever.
constexpr std::size_t kLeastBuffer = std::size_t{4} * CURL_MAX_WRITE_SIZE;
// How much of an error response's body is read: it says why, and read to its end it leaves the
// connection usable.
constexpr std::size_t kMostErrorText = kLeastBuffer;
constexpr milliseconds kErrorTextWait{1'000};
// Fewer system calls than with libcurl's 16 KiB, and still within the L2 cache.
constexpr long kReceiveBuffer = 256L << 10;

template <typename Value>
void set(const CurlEasy& easy, CURLoption option, Value value) {
  if (const CURLcode code = curl_easy_setopt(easy.get(), option, value); code != CURLE_OK) {
    throw Error(ErrorCode::kUnsupported,
                std::string("libcurl lacks an option: ") + curl_easy_strerror(code));
  }
}

CurlList make_list(const std::vector<std::string>& lines) {
  CurlList list;
  for (const std::string& line : lines) {
    curl_slist* longer = curl_slist_append(list.get(), line.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    static_cast<void>(list.release());
    list.reset(longer);
  }
  return list;
}

// Of the addresses that were tried at once for a connection, one was connected.
bool is_connected(CURL* handle, curl_socket_t socket) {
  long port = 0;
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (socket == CURL_SOCKET_BAD ||
      curl_easy_getinfo(handle, CURLINFO_LOCAL_PORT, &port) != CURLE_OK ||
      ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return false;
  }
  const auto own = address.ss_family == AF_INET6
                       ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                       : reinterpret_cast<const sockaddr_in&>(address).sin_port;
  return port != 0 && ntohs(own) == port;
}

// The kernel's own measurement, which other load on the machine hardly lengthens.
std::optional<Clock::Duration> least_round_trip(CURL* handle, curl_socket_t socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (!is_connected(handle, socket) ||
      ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_min_rtt == ~0U) {
    return {};
  }
  return std::chrono::microseconds(info.tcpi_min_rtt);
}

// "h port 80" of the "h:80" that url_host() gives.
std::string as_libcurl_names(const std::string& server) {
  const std::size_t colon = std::min(server.rfind(':'), server.size());
  std::string host = server.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  return host + " port " + server.substr(std::min(colon + 1, server.size()));
}

// libcurl repeats a proxy's variable, which may hold a password. And it names what it could not
// connect to without telling that it is a proxy, which is so if it is not the url's `server`.
std::string shown_error(std::string text, CURLcode code, const std::string& server) {
  constexpr std::string_view kUnconnected = "Failed to connect to ";
  if (text.starts_with("Unsupported proxy"))
    text = "the environment's proxy is not of the form http://HOST:PORT";
  if (text.starts_with(kUnconnected) &&
      !text.starts_with(std::string(kUnconnected) + as_libcurl_names(server) + " "))
    text.insert(0, "the proxy does not answer: ");
  return text.find('@') == text.npos ? text : curl_easy_strerror(code);
}

// Faults that another try cannot fix.
bool hopeless(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_OUT_OF_MEMORY:
      return true;
    default:
      return false;
  }
}

}  // namespace

HttpBody file_body(std::shared_ptr<const UniqueFd> file, std::uint64_t bytes) {
  return {.read = [file = std::move(file)](std::span<std::byte> into,
                                           std::uint64_t offset) -> std::optional<std::size_t> {
            for (;;) {
              const ssize_t got =
                  ::pread(file->get(), into.data(), into.size(), static_cast<off_t>(offset));
              if (got >= 0) return static_cast<std::size_t>(got);
              if (errno != EINTR) return std::nullopt;
            }
          },
          .bytes = bytes};
}

HttpBody memory_body(Bytes content) {
  const std::uint64_t bytes = content.size();
  return {.read =
              [content = std::move(content)](std::span<std::byte> into, std::uint64_t offset) {
                const auto rest = content.span().subspan(static_cast<std::size_t>(offset));
                const std::size_t count = std::min(rest.size(), into.size());
                std::copy_n(rest.begin(), count, into.begin());
                return std::optional(count);
              },
          .bytes = bytes};
}

HttpTransfer::HttpTransfer(const HttpRequest& request, const HttpOptions& options, NetworkLog& news)
    : options_(options),
      news_(news),
      name_(request.name),
      server_(url_host(request.url)),
      body_(request.body),
      limit_(request.limit),
      easy_(curl_easy_init()),
      headers_(make_list(request.header_lines)),
      body_rate_(options.stall_timeout, options.stall_bytes_per_s),
      upload_rate_(options.stall_timeout, options.stall_bytes_per_s),
      ring_(buffer_bytes(options)) {
  if (!easy_) throw std::bad_alloc();
  set_options(request);
}

std::size_t HttpTransfer::buffer_bytes(const HttpOptions& options) {
  return std::max(options.buffer_bytes, kLeastBuffer);
}

void HttpTransfer::set_options(const HttpRequest& request) {
  set(easy_, CURLOPT_URL, request.url.c_str());
  set(easy_, CURLOPT_PATH_AS_IS, request.path_as_is ? 1L : 0L);
  set(easy_, CURLOPT_HTTPHEADER, headers_.get());
  set(easy_, CURLOPT_PRIVATE, this);
  set(easy_, CURLOPT_ERRORBUFFER, static_cast<char*>(error_text_));
  set(easy_, CURLOPT_HEADERFUNCTION, &on_header);
  set(easy_, CURLOPT_HEADERDATA, this);
  set(easy_, CURLOPT_WRITEFUNCTION, &on_body);
  set(easy_, CURLOPT_WRITEDATA, this);
  set(easy_, CURLOPT_SOCKOPTFUNCTION, &on_socket);
  set(easy_, CURLOPT_SOCKOPTDATA, this);
  set(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  set(easy_, CURLOPT_HTTP_VERSION,
      static_cast<long>(request.own_connection ? CURL_HTTP_VERSION_1_1 : CURL_HTTP_VERSION_2TLS));
  set(easy_, CURLOPT_CONNECTTIMEOUT_MS,
      static_cast<long>(duration_cast<milliseconds>(limited(options_.connect_timeout)).count()));
#if LIBCURL_VERSION_NUM >= 0x075700
  // A resolver thread that still waits for its name server delays neither the loop nor program
  // exit.
  set(easy_, CURLOPT_QUICK_EXIT, 1L);
#endif
  set(easy_, CURLOPT_BUFFERSIZE, kReceiveBuffer);
  set(easy_, CURLOPT_TCP_KEEPALIVE, 1L);
  set(easy_, CURLOPT_NOSIGNAL, 1L);
  set(easy_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(easy_, CURLOPT_HEADEROPT, static_cast<long>(CURLHEADER_SEPARATE));
  set(easy_, CURLOPT_USERAGENT, "millrace");
  if (!options_.ca_file.empty()) set(easy_, CURLOPT_CAINFO, options_.ca_file.c_str());
  if (body_) {
    set_body(request.method);
  } else if (request.method == "HEAD") {
    set(easy_, CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET") {
    set(easy_, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  }
}

void HttpTransfer::set_body(const std::string& method) {
  set(easy_, CURLOPT_UPLOAD, 1L);
  if (method != "PUT") set(easy_, CURLOPT_CUSTOMREQUEST, method.c_str());
  set(easy_, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(body_->bytes));
  set(easy_, CURLOPT_READFUNCTION, &on_send);
  set(easy_, CURLOPT_READDATA, this);
  // libcurl rewinds and sends again if a kept connection turns out to be dead.
  set(easy_, CURLOPT_SEEKFUNCTION, &on_seek);
  set(easy_, CURLOPT_SEEKDATA, this);
}

// ---- the reader's side

template <typename Ready>
void HttpTransfer::wait(MutexLock& lock, const std::stop_token& stop, Ready ready) {
  bool came = false;
  if (!stop.stop_requested()) came = changed_.wait_for(lock, stop, kLongWait, ready);
  if (!came && !stop.stop_requested()) {
    news_.wait(name_, awaited(), kLongWait);
    came = changed_.wait(lock, stop, ready);
  }
  if (!came) throw Error(ErrorCode::kCancelled, "reading was stopped");
}

std::string HttpTransfer::awaited() const {
  if (head_.complete()) return "no data";
  return body_ ? "not uploaded yet" : "no answer yet";
}

std::optional<HttpHead> HttpTransfer::wait_for_head(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  wait(lock, stop,
       [this]() MILLRACE_REQUIRES(mutex_) { return head_.complete() || end_.has_value(); });
  if (!head_.complete()) return std::nullopt;
  return head_;
}

// What comes while the reader waits is copied into its memory, under the lock: the reader goes on
// only once that is done.
std::size_t HttpTransfer::read(std::span<std::byte> into, const std::stop_token& stop) {
  std::span<const std::byte> run;
  {
    MutexLock lock(mutex_);
    if (ring_.size() == 0) {
      room_ = into;
      wanted_ = std::min(into.size(), kWorthWaking);
      try {
        wait(lock, stop,
             [this]() MILLRACE_REQUIRES(mutex_) { return has_data() || end_.has_value(); });
      } catch (...) {
        take_back_room();
        throw;
      }
      if (const std::size_t got = take_back_room()) return got;
    }
    if (ring_.size() == 0) return 0;
    run = ring_.filled_run(into.size());
  }
  std::copy(run.begin(), run.end(), into.begin());
  MutexLock lock(mutex_);
  ring_.taken(run.size());
  return run.size();
}

std::size_t HttpTransfer::take_back_room() {
  room_ = {};
  wanted_ = 0;
  return std::exchange(handed_, 0);
}

std::string HttpTransfer::error_text(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  changed_.wait_for(lock, stop, kErrorTextWait,
                    [this]() MILLRACE_REQUIRES(mutex_) { return end_.has_value(); });
  const auto text = std::as_bytes(ring_.filled_run(kMostErrorText));
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

TransferEnd HttpTransfer::wait_for_end(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  wait(lock, stop, [this]() MILLRACE_REQUIRES(mutex_) { return end_.has_value(); });
  return *end_;
}

bool HttpTransfer::wait_until(Awaited what, Clock::TimePoint until, const std::stop_token& stop) {
  MutexLock lock(mutex_);
  const bool body = what == Awaited::kBody;
  const auto is_there = [&]() MILLRACE_REQUIRES(mutex_) {
    return end_.has_value() || (body ? ring_.size() > 0 : head_.complete());
  };
  const Clock::TimePoint long_wait = Clock::system().now() + kLongWait;
  wanted_ = body ? 1 : 0;
  bool came = changed_.wait_until(lock, stop, std::min(until, long_wait), is_there);
  if (!came && until > long_wait && !stop.stop_requested()) {
    news_.wait(name_, awaited(), kLongWait);
    came = changed_.wait_until(lock, stop, until, is_there);
  }
  wanted_ = 0;
  if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "reading was stopped");
  return came;
}

HttpHead HttpTransfer::head() const {
  MutexLock lock(mutex_);
  return head_;
}

long HttpTransfer::status() const {
  MutexLock lock(mutex_);
  return head_.complete() ? head_.status() : 0;
}

bool HttpTransfer::settled() const {
  MutexLock lock(mutex_);
  return end_.has_value() || paused_;
}

bool HttpTransfer::has_failed() const {
  MutexLock lock(mutex_);
  return end_ && !end_->ok;
}

ResponseTimes HttpTransfer::times() const {
  MutexLock lock(mutex_);
  return times_;
}

std::optional<Clock::Duration> HttpTransfer::round_trip() const {
  MutexLock lock(mutex_);
  return round_trip_;
}

bool HttpTransfer::wants_resume() {
  MutexLock lock(mutex_);
  if (!paused_ || ring_.size() > ring_.capacity() / 2) return false;
  return std::exchange(paused_, false);
}

void HttpTransfer::abandon() {
  MutexLock lock(mutex_);
  abandoned_ = true;
}

// ---- the loop's side

void HttpTransfer::go_on() { curl_easy_pause(easy_.get(), CURLPAUSE_CONT); }

void HttpTransfer::announce() {
  MutexLock lock(mutex_);
  if (wanted_ > 0 && has_data()) changed_.notify_one();
}

void HttpTransfer::announce_if_still() {
  MutexLock lock(mutex_);
  const bool still = std::exchange(seen_, received_) == received_;
  if (still && wanted_ > 0 && has_data()) changed_.notify_one();
}

void HttpTransfer::finish(CURLcode code) {
  if (code == CURLE_OK) return finish({.ok = true});
  const std::string text =
      shown_error(error_text_[0] != '\0' ? error_text_ : curl_easy_strerror(code), code, server_);
  const bool unresolved = code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY;
  finish({.retry = !hopeless(code), .message = text, .unresolved = unresolved});
}

void HttpTransfer::finish(TransferEnd end) {
  MutexLock lock(mutex_);
  if (!end_) end_ = std::move(end);
  changed_.notify_one();
}

Clock::Duration HttpTransfer::limited(Clock::Duration limit) const {
  return std::min(limit, limit_.value_or(limit));
}

// libcurl has a time limit for connecting, but none for name resolution alone.
std::optional<TransferEnd> HttpTransfer::overdue_to_connect(Clock::TimePoint now) {
  if (!started_) started_ = now;
  curl_off_t resolved_after = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_NAMELOOKUP_TIME_T, &resolved_after);
  if (resolved_after != 0 || now - *started_ <= limited(options_.resolve_timeout)) return {};
  return TransferEnd{.message = "the host's name was not resolved in time", .unresolved = true};
}

std::optional<TransferEnd> HttpTransfer::overdue() {
  const Clock::TimePoint now = options_.transfer_clock->now();
  curl_off_t connected_after = 0;
  curl_easy_getinfo(easy_.get(), CURLINFO_PRETRANSFER_TIME_T, &connected_after);
  if (connected_after == 0) return overdue_to_connect(now);
  if (!asked_) asked_ = now;
  MutexLock lock(mutex_);
  if (head_.complete()) {
    // Time during which the reader leaves the buffer full is not the server's fault.
    if (paused_) body_rate_.restart(now, received_);
    if (!body_rate_.stalls(now, received_)) return {};
    return TransferEnd{.message = "the transfer stalled", .stalled = true};
  }
  if (body_ && sent_ < body_->bytes) {
    asked_ = now;
    if (!upload_rate_.stalls(now, sent_)) return {};
    return TransferEnd{.message = "the upload stalled", .stalled = true};
  }
  if (now - *asked_ <= limited(options_.first_byte_timeout)) return {};
  return TransferEnd{.message = "no answer in time"};
}

std::size_t HttpTransfer::on_send(char* data, std::size_t, std::size_t count, void* self) noexcept {
  auto& transfer = *static_cast<HttpTransfer*>(self);
  const auto into = std::as_writable_bytes(std::span(data, count));
  const std::optional<std::size_t> got = transfer.body_->read(into, transfer.sent_);
  if (!got) return CURL_READFUNC_ABORT;
  transfer.sent_ += *got;
  return *got;
}

int HttpTransfer::on_seek(void* self, curl_off_t offset, int origin) noexcept {
  if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<HttpTransfer*>(self)->sent_ = static_cast<std::uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int HttpTransfer::on_socket(void* self, curl_socket_t socket, curlsocktype /*purpose*/) noexcept {
  static_cast<HttpTransfer*>(self)->socket_ = socket;
  return CURL_SOCKOPT_OK;
}

std::size_t HttpTransfer::on_header(char* data, std::size_t, std::size_t count,
                                    void* self) noexcept {
  static_cast<HttpTransfer*>(self)->take_header({data, count});
  return count;
}

std::size_t HttpTransfer::on_body(char* data, std::size_t, std::size_t count, void* self) noexcept {
  return static_cast<HttpTransfer*>(self)->take_body(std::as_bytes(std::span(data, count)));
}

void HttpTransfer::take_header(std::string_view line) {
  MutexLock lock(mutex_);
  head_.add_line(line);
  if (!head_.complete()) return;
  times_.head = Clock::system().now() - asked_at_;
  round_trip_ = least_round_trip(easy_.get(), socket_);
  changed_.notify_one();
}

std::size_t HttpTransfer::take_body(std::span<const std::byte> data) {
  {
    MutexLock lock(mutex_);
    if (abandoned_) return 0;
    const bool is_error = head_.status() < 200 || head_.status() > 299;
    if (is_error && received_ + data.size() > kMostErrorText) return 0;
    if (ring_.space() < data.size()) {
      paused_ = true;
      changed_.notify_one();
      return CURL_WRITEFUNC_PAUSE;
    }
  }
  push(data.subspan(hand_to_reader(data)));
  return data.size();
}

// How much of `data` went to a reader that waits, which is nothing while the ring has bytes that
// come before.
std::size_t HttpTransfer::hand_to_reader(std::span<const std::byte> data) {
  MutexLock lock(mutex_);
  const std::size_t bytes = ring_.size() > 0 ? 0 : std::min(data.size(), room_.size() - handed_);
  if (bytes == 0) return 0;
  std::copy_n(data.begin(), bytes, room_.begin() + static_cast<std::ptrdiff_t>(handed_));
  handed_ += bytes;
  count(bytes);
  if (handed_ >= wanted_) changed_.notify_one();
  return bytes;
}

void HttpTransfer::push(std::span<const std::byte> data) {
  while (!data.empty()) {
    std::span<std::byte> run;
    {
      MutexLock lock(mutex_);
      run = ring_.free_run(data.size());
    }
    std::copy_n(data.begin(), run.size(), run.begin());
    data = data.subspan(run.size());
    MutexLock lock(mutex_);
    ring_.filled(run.size());
    count(run.size());
    if (wanted_ > 0 && ring_.size() >= wanted_) changed_.notify_one();
  }
}

void HttpTransfer::count(std::size_t bytes) {
  received_ += bytes;
  times_.whole = Clock::system().now() - asked_at_;
}

}  // namespace millrace::io::detail

#include "io/detail/http_exchange.h"

#include "io/detail/url.h"
#include "io/opener.h"

namespace millrace::io::detail {
namespace {

// 301, 302 and 303 may turn a PUT into a GET, so a PUT follows only 307 and 308.
bool is_redirect(long status, bool put) {
  if (status == 307 || status == 308) return true;
  return !put && (status == 301 || status == 302 || status == 303);
}

bool may_pass(long status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
         status == 503 || status == 504;
}

bool may_not_be_seen(long status) {
  return status == 401 || status == 403 || status == 404 || status == 410;
}

HttpFault final_fault(std::string message) {
  return {.error = Error(ErrorCode::kIo, std::move(message)), .retry = false};
}

// The bytes that a stalling transfer receives before it is aborted again.
std::uint64_t slowest_window(const HttpOptions& options) {
  const std::chrono::duration<double> window = options.stall_timeout;
  return static_cast<std::uint64_t>(window.count() *
                                    static_cast<double>(options.stall_bytes_per_s));
}

// Many objects of few servers is the usual case; this bounds the set if it is not.
constexpr std::size_t kMostHosts = 4096;

}  // namespace

bool HttpClient::has_answered(const std::string& url) const {
  MutexLock lock(mutex);
  return hosts.contains(url_host(url));
}

void HttpClient::answered(const std::string& url) {
  std::string host = url_host(url);
  MutexLock lock(mutex);
  if (hosts.size() < kMostHosts) hosts.insert(std::move(host));
}

void wait_for_next_try(HttpClient& client, const std::string& name, Backoff& backoff,
                       const HttpFault& fault, const std::stop_token& stop) {
  if (!fault.retry) throw Error(fault.error);
  const Clock& clock = *client.options.clock;
  const std::optional<Clock::Duration> wait = backoff.failed(clock.now(), fault.how);
  if (!wait) {
    const int tries = backoff.tries();
    throw Error(fault.error.code(),
                fault.error.message() +
                    (tries > 1 ? ", " + std::to_string(tries) + " tries in a row" : ""));
  }
  const Clock::Duration patience = fault.how.patience.value_or(client.options.retry.patience);
  client.news.retry(name, fault.error.message(),
                    std::chrono::duration_cast<std::chrono::milliseconds>(patience));
  if (!clock.sleep_for(*wait, stop)) {
    throw Error(ErrorCode::kCancelled, "waiting for the next try was stopped");
  }
}

HttpFault refusal(const HttpHead& head) {
  const long status = head.status();
  const ErrorCode code = may_not_be_seen(status) ? ErrorCode::kNotFound : ErrorCode::kIo;
  return {.error = Error(code, "the server answered with status " + std::to_string(status)),
          .retry = may_pass(status),
          .how = {.retry_after = retry_after(head)}};
}

HttpExchange::HttpExchange(HttpClient& client, const HttpTarget& target,
                           std::vector<std::string> header_lines,
                           std::optional<Clock::Duration> limit, std::optional<HttpBody> body)
    : client_(client),
      name_(target.name),
      url_(target.url),
      header_lines_(std::move(header_lines)),
      secret_lines_(target.secret_lines(body ? "PUT" : "GET")),
      limit_(limit),
      body_(std::move(body)) {
  send();
}

HttpExchange::~HttpExchange() { drop(); }

void HttpExchange::drop() {
  if (!transfer_) return;
  transfer_->abandon();
  client_.loop.cancel(std::move(transfer_));
}

void HttpExchange::send() {
  HttpRequest request{
      .url = url_, .name = name_, .header_lines = header_lines_, .body = body_, .limit = limit_};
  request.header_lines.insert(request.header_lines.end(), secret_lines_.begin(),
                              secret_lines_.end());
  transfer_ = std::make_shared<HttpTransfer>(request, client_.options, client_.news);
  client_.loop.start(transfer_);
}

HttpFault HttpExchange::transport_fault(const TransferEnd& end) const {
  HttpFault fault{.error = Error(ErrorCode::kIo, end.message), .retry = end.retry};
  if (end.stalled) fault.how.least_progress = slowest_window(client_.options);
  if (end.unresolved && !client_.has_answered(url_)) {
    fault.how.patience = client_.options.resolve_timeout;
  }
  return fault;
}

std::optional<HttpFault> HttpExchange::wait_for_head(const std::stop_token& stop) {
  for (int hops = 0;; ++hops) {
    std::optional<HttpHead> head = transfer_->wait_for_head(stop);
    if (!head) return transport_fault(transfer_->wait_for_end(stop));
    client_.answered(url_);
    head_ = *std::move(head);
    if (!is_redirect(head_.status(), body_.has_value())) return std::nullopt;
    if (auto fault = follow(hops)) return fault;
  }
}

std::optional<HttpFault> HttpExchange::follow(int hops) {
  if (hops >= client_.options.max_redirects) {
    return final_fault("more than " + std::to_string(client_.options.max_redirects) + " redirects");
  }
  const std::string location(head_.field("location"));
  if (location.empty()) return final_fault("a redirect without a Location");
  const std::string target = resolve_url(url_, location);
  const std::string scheme = url_scheme(target);
  if (scheme != "http" && scheme != "https") {
    return final_fault("a redirect to " + printable_url(target) + ", which is not http(s)");
  }
  if (scheme == "http" && url_scheme(url_) == "https") {
    return final_fault("a redirect from https to http is refused");
  }
  // Once dropped they stay dropped, even if a later redirect leads back to the first host: another
  // host in the chain must not choose what our credentials open.
  if (!same_origin(url_, target)) secret_lines_.clear();
  drop();
  url_ = target;
  send();
  return std::nullopt;
}

std::size_t HttpExchange::read(std::span<std::byte> into, const std::stop_token& stop) {
  const std::size_t got = transfer_->read(into, stop);
  if (transfer_->wants_resume()) client_.loop.resume(transfer_);
  return got;
}

std::optional<HttpFault> HttpExchange::wait_for_end(const std::stop_token& stop) {
  const TransferEnd end = transfer_->wait_for_end(stop);
  if (end.ok) return std::nullopt;
  return transport_fault(end);
}

}  // namespace millrace::io::detail

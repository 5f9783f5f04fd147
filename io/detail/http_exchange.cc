#include "io/detail/http_exchange.h"

#include "io/detail/url.h"
#include "io/opener.h"

namespace millrace::io::detail {
namespace {

bool is_redirect(long status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
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

HttpFault transport_fault(const TransferEnd& end) {
  return {.error = Error(ErrorCode::kIo, end.message), .retry = end.retry};
}

}  // namespace

HttpFault refusal(const HttpHead& head) {
  const long status = head.status();
  const ErrorCode code = may_not_be_seen(status) ? ErrorCode::kNotFound : ErrorCode::kIo;
  return {.error = Error(code, "the server answered with status " + std::to_string(status)),
          .retry = may_pass(status),
          .retry_after = retry_after(head)};
}

HttpExchange::HttpExchange(HttpClient& client, std::string url,
                           std::vector<std::string> header_lines)
    : client_(client), url_(std::move(url)), header_lines_(std::move(header_lines)) {
  send();
}

HttpExchange::~HttpExchange() { drop(); }

void HttpExchange::drop() {
  if (!transfer_) return;
  transfer_->abandon();
  client_.loop.cancel(std::move(transfer_));
}

void HttpExchange::send() {
  HttpRequest request{.url = url_, .header_lines = header_lines_};
  if (with_own_headers_) {
    for (const auto& [name, value] : client_.options.headers) {
      request.header_lines.push_back(std::string(name).append(": ").append(value));
    }
  }
  transfer_ = std::make_shared<HttpTransfer>(request, client_.options);
  client_.loop.start(transfer_);
}

std::optional<HttpFault> HttpExchange::wait_for_head(const std::stop_token& stop) {
  for (int hops = 0;; ++hops) {
    std::optional<HttpHead> head = transfer_->wait_for_head(stop);
    if (!head) return transport_fault(transfer_->wait_for_end(stop));
    head_ = *std::move(head);
    if (!is_redirect(head_.status())) return std::nullopt;
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
  // Once dropped they stay so: a stranger in the chain must not choose what they open at home.
  with_own_headers_ = with_own_headers_ && same_origin(url_, target);
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

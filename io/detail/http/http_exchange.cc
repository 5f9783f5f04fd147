#include "io/detail/http/http_exchange.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "io/base/json.h"
#include "io/base/text.h"
#include "io/detail/http/ca_file.h"
#include "io/detail/http/url.h"
#include "io/opener.h"

namespace millrace::io::detail {
namespace {

// 301, 302 and 303 may turn a PUT into a GET, so only a GET follows them. To an upload's part,
// Google answers 308 without a Location: what it has so far.
bool is_redirect(const HttpHead& head, const std::string& method) {
  const long status = head.status();
  if (status == 307 || status == 308) return method == "GET" || !head.field("location").empty();
  return method == "GET" && (status == 301 || status == 302 || status == 303);
}

std::string region_hint(const HttpHead& head) {
  const std::string_view region = head.field("x-amz-bucket-region");
  if (region.empty() || (head.status() != 301 && head.status() != 400)) return "";
  return ": the bucket is in " + printable(region) + ", which AWS_REGION should name";
}

bool may_pass(long status) {
  return status == 408 || status == 425 || status == 429 || status == 500 || status == 502 ||
         status == 503 || status == 504;
}

// The server did not get what we sent.
bool was_damaged_on_the_way(const std::string& code) {
  return code == "RequestTimeout" || code == "BadDigest" || code == "XAmzContentSHA256Mismatch" ||
         code == "IncompleteBody";
}

ErrorCode code_of_status(long status) {
  if (status == 404 || status == 410) return ErrorCode::kNotFound;
  return status == 401 || status == 403 ? ErrorCode::kPermissionDenied : ErrorCode::kIo;
}

HttpFault final_fault(std::string message) {
  return {.error = Error(ErrorCode::kIo, std::move(message)), .retry = false};
}

// A code is a word; whatever else stands there is not repeated in messages.
std::string as_code(std::string_view text) {
  const bool is_word =
      text.size() <= kEchoBytes && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
      });
  return is_word ? std::string(text) : "";
}

std::string json_error_code(std::string_view body) {
  try {
    const auto error = parse_json<nlohmann::json>(body, "answer", {.depth = 8}).at("error");
    if (error.is_string()) return error.get<std::string>();
    if (error.contains("errors")) return error["errors"].at(0).at("reason").get<std::string>();
    return error.at("status").get<std::string>();
  } catch (const std::exception&) {  // an error without a code
    return "";
  }
}

std::string error_code_of(std::string_view body) {
  if (body.starts_with('{')) return as_code(json_error_code(body));
  constexpr std::string_view kOpen = "<Code>";
  const std::size_t from = body.find(kOpen);
  if (from == std::string_view::npos) return "";
  const std::string_view rest = body.substr(from + kOpen.size());
  return as_code(rest.substr(0, rest.find('<')));
}

// The bytes that a stalling transfer receives before it is aborted again.
std::uint64_t slowest_window(const HttpOptions& options) {
  const std::chrono::duration<double> window = options.stall_timeout;
  return static_cast<std::uint64_t>(window.count() *
                                    static_cast<double>(options.stall_bytes_per_s));
}

// A part fits into a transfer's buffer. Larger ones would leave fewer to be in flight.
constexpr std::size_t kMostPartBytes = std::size_t{4} << 20;

HttpOptions with_ca_file(HttpOptions options) {
  if (options.ca_file.empty()) options.ca_file = find_ca_file();
  return options;
}

}  // namespace

HttpClient::HttpClient(HttpOptions the_options)
    : options(with_ca_file(std::move(the_options))),
      budget(options.retry),
      parts(options.ahead_bytes, std::min(kMostPartBytes, HttpTransfer::buffer_bytes(options))),
      news(options.log) {}

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

HttpExchange::HttpExchange(HttpClient& client, const HttpTarget& target, HttpRequest request,
                           const std::stop_token& stop)
    : client_(client), request_(std::move(request)), signer_(target.signer) {
  request_.name = target.name;
  request_.url = target.url;
  request_.path_as_is = target.path_as_is;
  sign(stop);
  send();
}

void HttpExchange::sign(const std::stop_token& stop) {
  if (!signer_) return;
  secret_ = signer_->sign(client_,
                          {.method = request_.method,
                           .url = request_.url,
                           .header_lines = request_.header_lines,
                           .body_sha256 = request_.body_sha256},
                          stop);
}

HttpExchange::~HttpExchange() { drop(); }

void HttpExchange::drop() {
  if (!transfer_) return;
  transfer_->abandon();
  client_.loop.cancel(std::move(transfer_));
}

void HttpExchange::send() {
  HttpRequest request = request_;
  request.header_lines.insert(request.header_lines.end(), secret_.lines.begin(),
                              secret_.lines.end());
  error_code_.reset();
  transfer_ = std::make_shared<HttpTransfer>(request, client_.options, client_.news);
  client_.loop.start(transfer_);
}

const std::string& HttpExchange::error_code(const std::stop_token& stop) {
  if (!error_code_) error_code_ = error_code_of(transfer_->error_text(stop));
  return *error_code_;
}

// Once: credentials that are refused right after they were fetched are not the right ones.
bool HttpExchange::may_sign_again(const std::stop_token& stop) {
  const long status = head_.status();
  if (!signer_ || signed_again_ || (status != 400 && status != 401 && status != 403)) return false;
  signed_again_ = signer_->reconsider(head_, error_code(stop), secret_.version);
  return signed_again_;
}

HttpFault HttpExchange::refusal(const std::stop_token& stop) {
  const long status = head_.status();
  const std::string& reason = error_code(stop);
  const ErrorCode code = code_of_status(status);
  return {
      .error = Error(code, "the server answered with status " + std::to_string(status) +
                               (reason.empty() ? "" : " (" + reason + ")") + region_hint(head_)),
      .retry = may_pass(status) || was_damaged_on_the_way(reason),
      .how = {.retry_after = retry_after(head_)}};
}

HttpFault HttpExchange::transport_fault(const TransferEnd& end) const {
  HttpFault fault{.error = Error(ErrorCode::kIo, end.message), .retry = end.retry};
  if (end.stalled) fault.how.least_progress = slowest_window(client_.options);
  if (end.unresolved && !client_.servers.has_answered(request_.url)) {
    fault.how.patience = client_.options.resolve_timeout;
  }
  return fault;
}

std::optional<HttpFault> HttpExchange::wait_for_head(const std::stop_token& stop) {
  for (;;) {
    if (refused_redirect_) return std::exchange(refused_redirect_, std::nullopt);
    std::optional<HttpHead> head = transfer_->wait_for_head(stop);
    if (!head) return transport_fault(transfer_->wait_for_end(stop));
    client_.servers.answered(request_.url);
    if (const auto round_trip = transfer_->round_trip())
      client_.servers.measured(request_.url, *round_trip);
    head_ = *std::move(head);
    if (may_sign_again(stop)) {
      drop();
      sign(stop);
      send();
    } else if (!is_redirect(head_, request_.method)) {
      return std::nullopt;
    } else if (auto fault = follow()) {
      return fault;
    }
  }
}

void HttpExchange::advance() {
  const long status = transfer_->status();
  if (status < 300 || status > 399 || refused_redirect_) return;
  head_ = transfer_->head();
  if (!is_redirect(head_, request_.method)) return;
  client_.servers.answered(request_.url);
  refused_redirect_ = follow();
}

std::optional<HttpFault> HttpExchange::follow() {
  if (hops_++ >= client_.options.max_redirects) {
    return final_fault("more than " + std::to_string(client_.options.max_redirects) + " redirects");
  }
  const std::string location(head_.field("location"));
  if (location.empty()) return final_fault("a redirect without a Location" + region_hint(head_));
  const std::string target = resolve_url(request_.url, location);
  const std::string scheme = url_scheme(target);
  if (scheme != "http" && scheme != "https") {
    return final_fault("a redirect to " + printable_url(target) + ", which is not http(s)");
  }
  if (scheme == "http" && url_scheme(request_.url) == "https") {
    return final_fault("a redirect from https to http is refused");
  }
  // Once dropped they stay dropped, even if a later redirect leads back to the first host: another
  // host in the chain must not choose what our credentials open.
  if (!same_origin(request_.url, target)) {
    secret_ = {};
    signer_ = nullptr;
  }
  drop();
  request_.url = target;
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

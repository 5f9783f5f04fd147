// call: a small request and its whole answer, with the retries that reads have.
//
// Threads: callable from any thread but the loop's.
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "io/detail/http/http_exchange.h"

namespace millrace::io::detail {

struct HttpCall {
  std::string method = "GET";
  std::vector<std::string> header_lines = {};
  /// Sent if there is any; a POST or PUT without one sends an empty body.
  Bytes body = {};
  /// SHA-256 of the body in hex, for stores that sign it.
  std::string body_sha256 = {};
  /// Statuses that are an answer, next to 2xx.
  std::vector<long> also = {};
  /// Maximum size of the answer's body in bytes.
  std::size_t most_bytes = std::size_t{1} << 20;
  /// Time limit of a single try; without one the client's retry options hold.
  std::optional<Clock::Duration> once = {};
};

struct HttpAnswer {
  HttpHead head = {};
  std::string body = {};
};

/// A target whose requests are not signed.
HttpTarget unsigned_target(const std::string& url);

/// Throws: NotFound, Io, Exhausted (a longer body), Cancelled; with the target's name.
HttpAnswer call(HttpClient& client, const HttpTarget& target, const HttpCall& what,
                const std::stop_token& stop);

/// What call() sends.
HttpRequest request_for(const HttpCall& what, std::optional<Clock::Duration> limit);
/// The answer to what was sent, or the fault. Throws: Exhausted, Cancelled.
std::optional<HttpFault> take_answer(HttpExchange& exchange, const HttpCall& what,
                                     const std::stop_token& stop, HttpAnswer& answer);

}  // namespace millrace::io::detail

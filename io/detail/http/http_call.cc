#include "io/detail/http/http_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "io/opener.h"

namespace millrace::io::detail {
namespace {

bool is_answer(long status, const HttpCall& what) {
  return (status >= 200 && status < 300) ||
         std::find(what.also.begin(), what.also.end(), status) != what.also.end();
}

HttpAnswer try_until_answered(HttpClient& client, const HttpTarget& target, const HttpCall& what,
                              const std::stop_token& stop) {
  const Clock& clock = *client.options.clock;
  Backoff backoff(client.options.retry, client.budget);
  backoff.begin(clock.now());
  for (;;) {
    HttpExchange exchange(
        client, target, request_for(what, what.once ? what.once : backoff.left(clock.now())), stop);
    HttpAnswer answer;
    const std::optional<HttpFault> fault = take_answer(exchange, what, stop, answer);
    if (!fault) return answer;
    if (what.once) throw Error(fault->error);
    wait_for_next_try(client, target.name, backoff, *fault, stop);
  }
}

}  // namespace

HttpRequest request_for(const HttpCall& what, std::optional<Clock::Duration> limit) {
  const bool sends = what.method == "PUT" || what.method == "POST" || !what.body.empty();
  HttpRequest request{.method = what.method,
                      .header_lines = what.header_lines,
                      .body_sha256 = what.body_sha256,
                      .limit = limit};
  if (!sends) return request;
  request.body = memory_body(what.body);
  // Our bodies are small enough to be sent again: not waiting for "100 Continue" saves a round
  // trip.
  request.header_lines.emplace_back("Expect:");
  return request;
}

std::optional<HttpFault> take_answer(HttpExchange& exchange, const HttpCall& what,
                                     const std::stop_token& stop, HttpAnswer& answer) {
  if (auto fault = exchange.wait_for_head(stop)) return fault;
  answer.head = exchange.head();
  if (!is_answer(answer.head.status(), what)) return exchange.refusal(stop);
  std::array<std::byte, 16384> block;
  while (const std::size_t got = exchange.read(block, stop)) {
    if (answer.body.size() + got > what.most_bytes)
      throw Error(ErrorCode::kExhausted,
                  "an answer of more than " + std::to_string(what.most_bytes) + " bytes");
    answer.body.append(reinterpret_cast<const char*>(block.data()), got);
  }
  return exchange.wait_for_end(stop);
}

HttpTarget unsigned_target(const std::string& url) {
  return {.name = printable_url(url), .url = url, .signer = {}};
}

HttpAnswer call(HttpClient& client, const HttpTarget& target, const HttpCall& what,
                const std::stop_token& stop) {
  try {
    return try_until_answered(client, target, what, stop);
  } catch (Error& error) {
    error.annotate({.url = target.name});
    throw;
  }
}

}  // namespace millrace::io::detail

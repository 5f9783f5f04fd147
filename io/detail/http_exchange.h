// HttpExchange: one request, followed through its redirects to the final response.
//
// HttpClient is what all sources of one opener share: the options, the retry budget, the event
// loop.
//
// Redirects are followed here and not by libcurl, which would send our headers to other hosts and
// accept a downgrade from https to http.
//
// Threads: HttpClient from any thread; HttpExchange one at a time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/detail/http_loop.h"
#include "io/detail/http_target.h"
#include "io/detail/network_log.h"
#include "io/detail/retry.h"
#include "io/http_options.h"

namespace millrace::io::detail {

struct HttpClient {
  explicit HttpClient(HttpOptions the_options)
      : options(std::move(the_options)), budget(options.retry), news(options.log) {}

  /// Whether the server of that url's host and port has answered before; answered() records that it
  /// has.
  bool has_answered(const std::string& url) const MILLRACE_EXCLUDES(mutex);
  void answered(const std::string& url) MILLRACE_EXCLUDES(mutex);

  const HttpOptions options;
  RetryBudget budget;
  NetworkLog news;
  mutable Mutex mutex;
  std::set<std::string> hosts MILLRACE_GUARDED_BY(mutex);
  HttpLoop loop;  // last: its transfers use the options
};

/// What went wrong in one try, and whether another one may succeed.
struct HttpFault {
  Error error;
  bool retry = true;
  FailedTry how = {};
};

/// Logs the retry and waits until it is due. `name`: the printable url. Throws: the fault itself if
/// it is final or this was the last try; Cancelled.
void wait_for_next_try(HttpClient& client, const std::string& name, Backoff& backoff,
                       const HttpFault& fault, const std::stop_token& stop);

/// The fault for a status that is neither success nor a redirect.
HttpFault refusal(const HttpHead& head);

class HttpExchange {
 public:
  /// Sends the request at once: a GET, or a PUT if there is a body. `header_lines` are sent to
  /// every host along the redirects, the target's secret lines only to its own. `limit` shortens
  /// the time limits of each request.
  HttpExchange(HttpClient& client, const HttpTarget& target, std::vector<std::string> header_lines,
               std::optional<Clock::Duration> limit, std::optional<HttpBody> body = {});
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  /// Follows redirects and waits for the head of the final response, which head() returns. Returns
  /// the fault if there is none.
  std::optional<HttpFault> wait_for_head(const std::stop_token& stop);
  const HttpHead& head() const { return head_; }
  /// Reads some bytes of the body. Returns 0 when there are no more; wait_for_end() says why.
  std::size_t read(std::span<std::byte> into, const std::stop_token& stop);
  /// How the body ended: nullopt if it ended cleanly, a fault if the connection broke.
  std::optional<HttpFault> wait_for_end(const std::stop_token& stop);

 private:
  void send();
  void drop();
  std::optional<HttpFault> follow(int hops);
  HttpFault transport_fault(const TransferEnd& end) const;

  HttpClient& client_;
  std::string name_;
  std::string url_;
  std::vector<std::string> header_lines_;
  std::vector<std::string> secret_lines_;
  std::optional<Clock::Duration> limit_;
  std::optional<HttpBody> body_;
  std::shared_ptr<HttpTransfer> transfer_;
  HttpHead head_;
};

}  // namespace millrace::io::detail

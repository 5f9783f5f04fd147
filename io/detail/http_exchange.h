// HttpExchange: one request of a client's, through its redirects, to a response that can be judged.
//
// HttpClient is what all sources of one opener share: the options, the retries, the loop.
//
// Redirects are followed here and not by libcurl, which would hand on our headers to other hosts
// and accept a step from https down to http.
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

  /// Whether a server of that url's host and port has answered before, and that one has now.
  bool has_answered(const std::string& url) const MILLRACE_EXCLUDES(mutex);
  void answered(const std::string& url) MILLRACE_EXCLUDES(mutex);

  const HttpOptions options;
  RetryBudget budget;
  NetworkLog news;
  mutable Mutex mutex;
  std::set<std::string> hosts MILLRACE_GUARDED_BY(mutex);
  HttpLoop loop;  // last: its transfers use the options
};

/// What went wrong with one try, and whether another one may do better.
struct HttpFault {
  Error error;
  bool retry = true;
  FailedTry how = {};
};

/// Waits until it is time to try again, and says so. `name`: the url as it may be printed. Throws:
/// the fault itself when it was the last try or none helps; Cancelled.
void wait_for_next_try(HttpClient& client, const std::string& name, Backoff& backoff,
                       const HttpFault& fault, const std::stop_token& stop);

/// The fault that a status is which is neither success nor redirect.
HttpFault refusal(const HttpHead& head);

class HttpExchange {
 public:
  /// Sends the request at once: a GET, or with a body a PUT. `header_lines` go to every host that
  /// redirects lead to, the target's secret lines to its own alone. `limit` shortens the time
  /// limits of each request.
  HttpExchange(HttpClient& client, const HttpTarget& target, std::vector<std::string> header_lines,
               std::optional<Clock::Duration> limit, std::optional<HttpBody> body = {});
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  /// Follows redirects up to a response that is none: head() is it.
  std::optional<HttpFault> wait_for_head(const std::stop_token& stop);
  const HttpHead& head() const { return head_; }
  /// Some bytes of the body; 0 when there are no more.
  std::size_t read(std::span<std::byte> into, const std::stop_token& stop);
  /// How the body ended: a fault when the connection broke.
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

// HttpExchange: one request, followed through its redirects to the final response, and signed once
// more if the store refused its credentials as expired.
//
// HttpClient is what all sources of one opener share: the options, the budgets of retries and of
// parts ahead, what is known of the servers, the event loop.
//
// Redirects are followed here and not by libcurl, which would send our headers to other hosts and
// accept a downgrade from https to http.
//
// Threads: HttpClient from any thread; HttpExchange one at a time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/detail/http/http_loop.h"
#include "io/detail/http/http_servers.h"
#include "io/detail/http/network_log.h"
#include "io/detail/http/part_budget.h"
#include "io/detail/http/retry.h"
#include "io/detail/http/signer.h"
#include "io/http_options.h"

namespace millrace::io::detail {

struct HttpClient {
  explicit HttpClient(HttpOptions the_options);

  const HttpOptions options;
  RetryBudget budget;
  PartBudget parts;
  NetworkLog news;
  HttpServers servers;
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

class HttpExchange {
 public:
  /// Sends the request at once, unless the signer has to wait for credentials first, which `stop`
  /// ends. Throws: as Signer::sign().
  HttpExchange(HttpClient& client, const HttpTarget& target, HttpRequest request,
               const std::stop_token& stop);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  /// Follows redirects and waits for the head of the final response, which head() returns. Returns
  /// the fault if there is none.
  std::optional<HttpFault> wait_for_head(const std::stop_token& stop);
  /// Follows a redirect that has arrived, without waiting, for a reader that is busy elsewhere.
  void advance();
  const HttpHead& head() const { return head_; }
  /// To the server of the final response and back; 0 while it is unknown.
  Clock::Duration round_trip() const { return client_.servers.round_trip(request_.url); }
  const HttpTransfer& transfer() const { return *transfer_; }
  /// As HttpTransfer::wait_until().
  bool wait_until(HttpTransfer::Awaited what, Clock::TimePoint until, const std::stop_token& stop) {
    return transfer_->wait_until(what, until, stop);
  }
  /// The fault for a status that is neither success nor a redirect, with the code of its body.
  HttpFault refusal(const std::stop_token& stop);
  /// Reads some bytes of the body. Returns 0 when there are no more; wait_for_end() says why.
  std::size_t read(std::span<std::byte> into, const std::stop_token& stop);
  /// How the body ended: nullopt if it ended cleanly, a fault if the connection broke.
  std::optional<HttpFault> wait_for_end(const std::stop_token& stop);

 private:
  void sign(const std::stop_token& stop);
  void send();
  void drop();
  bool may_sign_again(const std::stop_token& stop);
  const std::string& error_code(const std::stop_token& stop);
  std::optional<HttpFault> follow();
  HttpFault transport_fault(const TransferEnd& end) const;

  HttpClient& client_;
  HttpRequest request_;
  std::shared_ptr<Signer> signer_;  // null once a redirect led to another host
  SecretLines secret_;
  bool signed_again_ = false;
  std::shared_ptr<HttpTransfer> transfer_;
  HttpHead head_;
  int hops_ = 0;
  std::optional<HttpFault> refused_redirect_;
  std::optional<std::string> error_code_;
};

}  // namespace millrace::io::detail

// MetricsServer: small pages of this process over HTTP, for whoever watches it: one thread, of low
// priority, that answers GET and HEAD and nothing else.
//
//   MetricsServer server(parse_listen_address("127.0.0.1:9400"),
//                        [&](const MetricsRequest& request) -> MetricsPage { ... });
//   log.info(server.url());
//
// Whoever connects cannot cost the process more than the options say: so many connections at once,
// so much memory for each, and so much time, after which it is closed, whatever it does.
// libmicrohttpd reads the requests.
//
// Threads: `answer` is called on the server's. Buffers: connections times connection_bytes, and a
// page.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace millrace::tools {

struct ListenAddress {
  std::string host = "127.0.0.1";  ///< a number: of IPv4, or of IPv6 without brackets
  std::uint16_t port = 0;          ///< 0: any that is free

  /// Whether this machine alone can reach it.
  bool is_loopback() const;
  /// "127.0.0.1:9400", "[::1]:9400".
  std::string text() const;
};

/// "127.0.0.1:9400", "[::1]:9400", "localhost:9400", or a port alone, of 127.0.0.1. Throws:
/// InvalidArgument.
ListenAddress parse_listen_address(const std::string& text);

struct MetricsRequest {
  std::string path = {};                   ///< "/metrics"
  std::optional<std::string> within = {};  ///< "?within=600"; nullopt: not given
  std::string unknown = {};                ///< another parameter's name; empty: none
};

struct MetricsPage {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string text = {};
};

struct MetricsServerOptions {
  unsigned connections = 16;
  std::size_t connection_bytes = std::size_t{16} << 10U;
  /// From the connection's beginning to its end.
  std::chrono::milliseconds time_limit{10'000};
  /// The same where there are as many connections as there may be.
  std::chrono::milliseconds full_limit{500};
};

class MetricsServer {
 public:
  using Answer = std::function<MetricsPage(const MetricsRequest& request)>;

  /// Listens. Throws: Io, with the address; Exhausted.
  MetricsServer(const ListenAddress& address, Answer answer,
                const MetricsServerOptions& options = {});
  /// Ends what is being answered.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  /// Where it listens, with the port that it has.
  const ListenAddress& address() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::tools

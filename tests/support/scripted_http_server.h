// ScriptedHttpServer: a server on a loopback port that sends exactly what the test specifies,
// well-formed or not.
//
//   ScriptedHttpServer server([](const ScriptedRequest& request) -> ScriptedReply {
//     if (request.number == 0) return {http_reply(200, "", "half").substr(0, 40), After::kReset};
//     return {http_reply(206, "Content-Range: bytes 2-3/4\r\n", "lf")};
//   });
//   opener.open(server.url("/a.tar"));
//
// Threads: the script runs on the server's threads, one request at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::testing {

struct ScriptedRequest {
  std::string method;
  std::string target;
  /// Names in lower case.
  std::map<std::string, std::string> headers;
  std::string body;
  /// Number of earlier requests.
  int number = 0;

  /// The header's value; empty if it was not sent.
  std::string header(const std::string& name) const;
  /// The first byte requested: 5 for "Range: bytes=5-"; 0 without a Range.
  std::uint64_t range_start() const;
  /// Behind the last byte requested: 10 for "Range: bytes=5-9"; the largest number without one.
  std::uint64_t range_end() const;
};

/// What happens to the connection after the reply.
enum class After {
  kKeep,   ///< wait for the next request
  kClose,  ///< close cleanly
  kReset,  ///< RST
  kHang,   ///< stay open and silent
};

struct ScriptedReply {
  std::string bytes;
  After after = After::kKeep;
  /// With a pause: bytes sent at a time, each followed by the pause.
  std::size_t piece = 0;
  std::chrono::milliseconds pause{0};
};

class ScriptedHttpServer {
 public:
  using Script = std::function<ScriptedReply(const ScriptedRequest&)>;

  explicit ScriptedHttpServer(Script script);
  ~ScriptedHttpServer();
  ScriptedHttpServer(const ScriptedHttpServer&) = delete;
  ScriptedHttpServer& operator=(const ScriptedHttpServer&) = delete;

  /// "http://127.0.0.1:PORT" and `target`.
  std::string url(const std::string& target = "/") const;
  std::uint16_t port() const;
  /// All requests so far.
  std::vector<ScriptedRequest> requests() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A complete HTTP/1.1 reply with its Content-Length. `fields` are lines that end in "\r\n".
std::string http_reply(int status, std::string_view fields, std::string_view body);
/// A correct server's reply to a GET of `object`: 206 with the Range, or 200. `fields` is added to
/// it.
std::string http_serve(const ScriptedRequest& request, std::string_view object,
                       std::string_view fields = "");

}  // namespace millrace::testing

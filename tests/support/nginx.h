// Nginx: a real nginx on a free loopback port that serves a folder; stopped on destruction.
//
//   if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
//   Nginx nginx(dir.path(), {.location_lines = "limit_rate 1m;"});
//   opener.open(nginx.url("a.tar"));
//   nginx.stop();  nginx.start();   // the same port again
//
// Throws: std::runtime_error with nginx's log if it does not start. Does not need gtest, so that
// benchmarks can use it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "io/detail/files/unique_fd.h"

namespace millrace::testing {

struct NginxOptions {
  /// Lines of nginx's configuration language for `location / {}`, `server {}` and `http {}`.
  std::string location_lines = "";
  std::string server_lines = "";
  std::string http_lines = "";
  /// Serve https with a temporary certificate (needs the openssl program); trust ca_file(). HTTP/2
  /// is offered.
  bool tls = false;
};

class Nginx {
 public:
  explicit Nginx(const std::filesystem::path& folder, NginxOptions options = {});
  ~Nginx();
  Nginx(const Nginx&) = delete;
  Nginx& operator=(const Nginx&) = delete;

  /// Why nginx cannot be started here; nullopt if it can.
  static std::optional<std::string> missing();

  /// "http://127.0.0.1:PORT/NAME".
  std::string url(const std::string& name = "") const;
  std::uint16_t port() const { return port_; }
  std::string ca_file() const { return (home_ / "cert.pem").string(); }
  /// Lines of the access log so far: "METHOD URI STATUS BYTES CONNECTION RANGE".
  std::string access_log() const;

  /// Kills the server at once, even while it is sending.
  void stop();
  /// Starts it (again), on the same port, and waits until it answers.
  void start();

 private:
  void write_config() const;
  void make_certificate() const;
  void wait_until_up();

  std::filesystem::path folder_;
  NginxOptions options_;
  std::filesystem::path home_;
  std::uint16_t port_ = 0;
  pid_t pid_ = -1;  // the shell under which nginx runs
  io::detail::UniqueFd leash_;
};

}  // namespace millrace::testing

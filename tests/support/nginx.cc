#include "tests/support/nginx.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

#include "io/detail/files/unique_fd.h"

namespace millrace::testing {
namespace {

using io::detail::UniqueFd;

constexpr const char* kPrograms[] = {"/usr/sbin/nginx", "/usr/local/sbin/nginx",
                                     "/usr/local/bin/nginx", "/usr/bin/nginx"};

const char* program() {
  for (const char* path : kPrograms) {
    if (::access(path, X_OK) == 0) return path;
  }
  return nullptr;
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

std::uint16_t free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("no free loopback port");
  }
  return ntohs(address.sin_port);
}

bool answers(std::uint16_t port) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

std::string slurp(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::optional<std::string> Nginx::missing() {
  if (program() != nullptr) return std::nullopt;
  return "nginx is not installed (apt-get install nginx-light)";
}

Nginx::Nginx(const std::filesystem::path& folder, NginxOptions options)
    : folder_(std::filesystem::absolute(folder)), options_(std::move(options)) {
  std::string name = (std::filesystem::temp_directory_path() / "millrace-nginx-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  home_ = name;
  port_ = free_port();
  if (program() == nullptr) throw std::runtime_error(*missing());
  if (options_.tls) make_certificate();
  start();
}

Nginx::~Nginx() {
  stop();
  std::error_code ignored;
  std::filesystem::remove_all(home_, ignored);
}

std::string Nginx::url(const std::string& name) const {
  return (options_.tls ? "https://localhost:" : "http://127.0.0.1:") + std::to_string(port_) + "/" +
         name;
}

std::string Nginx::access_log() const { return slurp(home_ / "access.log"); }

void Nginx::make_certificate() const {
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj "
      "/CN=localhost "
      "-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout '" +
      (home_ / "key.pem").string() + "' -out '" + ca_file() + "' 2>/dev/null";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("openssl made no certificate");
}

void Nginx::write_config() const {
  const std::string home = home_.string();
  std::ofstream config(home_ / "nginx.conf");
  // As root the workers would run as `nobody`, which cannot read a test's private folder.
  if (::geteuid() == 0) config << "user root;\n";
  config << "daemon off;\nworker_processes 1;\npid " << home << "/pid;\nerror_log " << home
         << "/error.log;\nevents { worker_connections 512; }\nhttp {\n"
         << "log_format brief '$request_method $uri $status $body_bytes_sent $connection "
            "$http_range';\naccess_log "
         << home << "/access.log brief;\nsendfile on;\ntcp_nodelay on;\n";
  for (const char* what : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
    config << what << "_temp_path " << home << "/" << what << ";\n";
  }
  config << options_.http_lines << "\nserver {\nlisten 127.0.0.1:" << port_;
  if (options_.tls) {
    config << " ssl http2;\nssl_certificate cert.pem;\nssl_certificate_key key.pem";
  }
  config << ";\nroot \"" << folder_.string() << "\";\n"
         << options_.server_lines << "\nlocation / {\n"
         << options_.location_lines << "\n}\n}\n}\n";
}

// nginx runs under a shell that ends it when our end of a pipe closes: on stop(), and also if the
// test is killed, so that no server is left running. (PR_SET_PDEATHSIG would end it with the
// thread.)
void Nginx::start() {
  if (pid_ > 0) return;
  write_config();
  const std::string home = home_.string();
  const std::string script = std::string("'") + program() + "' -p '" + home + "' -c '" + home +
                             "/nginx.conf' -e '" + home +
                             "/error.log' </dev/null 2>/dev/null & read line; kill $!; wait $!";
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const UniqueFd input(ends[0]);
  leash_ = UniqueFd(ends[1]);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork failed");
  if (pid_ == 0) {
    ::dup2(input.get(), STDIN_FILENO);
    ::execl("/bin/sh", "sh", "-c", script.c_str(), nullptr);
    ::_exit(127);
  }
  wait_until_up();
}

void Nginx::wait_until_up() {
  for (int i = 0; i < 6000; ++i) {
    if (answers(port_)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  stop();
  throw std::runtime_error("nginx does not answer: " + slurp(home_ / "error.log"));
}

void Nginx::stop() {
  if (pid_ <= 0) return;
  leash_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace millrace::testing

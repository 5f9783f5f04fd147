#include "tests/support/scripted_http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <list>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include "io/detail/files/unique_fd.h"

namespace millrace::testing {
namespace {

using io::detail::UniqueFd;

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Reads until `buffer` has at least one complete head; returns false if the client is gone.
bool receive(int fd, std::string& buffer) {
  char block[16384];
  const ssize_t got = ::recv(fd, block, sizeof block, 0);
  if (got <= 0) return false;
  buffer.append(block, static_cast<std::size_t>(got));
  return true;
}

ScriptedRequest parse_head(const std::string& head) {
  ScriptedRequest request;
  std::size_t line = head.find("\r\n");
  const std::string first = head.substr(0, line);
  const std::size_t space = first.find(' ');
  request.method = first.substr(0, space);
  request.target = first.substr(space + 1, first.rfind(' ') - space - 1);
  while (line + 2 < head.size()) {
    const std::size_t next = head.find("\r\n", line + 2);
    const std::string field = head.substr(line + 2, next - line - 2);
    if (const std::size_t colon = field.find(':'); colon != std::string::npos) {
      const std::size_t value = field.find_first_not_of(' ', colon + 1);
      request.headers[lower(field.substr(0, colon))] =
          value == std::string::npos ? "" : field.substr(value);
    }
    line = next;
  }
  return request;
}

// Returns false if the client is gone.
bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

void send_reply(int fd, const ScriptedReply& reply) {
  std::string_view bytes = reply.bytes;
  if (reply.pause.count() == 0) {
    send_all(fd, bytes);
    return;
  }
  while (!bytes.empty()) {
    const std::size_t piece = std::min(reply.piece, bytes.size());
    if (!send_all(fd, bytes.substr(0, piece))) return;
    bytes.remove_prefix(piece);
    std::this_thread::sleep_for(reply.pause);
  }
}

void close_with_reset(UniqueFd& fd) {
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  fd.reset();
}

}  // namespace

struct ScriptedHttpServer::State {
  explicit State(Script the_script) : script(std::move(the_script)) { listen(); }

  void listen() {
    listener = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener.get(), generic, size) != 0 || ::listen(listener.get(), 64) != 0 ||
        ::getsockname(listener.get(), generic, &size) != 0) {
      throw std::runtime_error("scripted server: no loopback port");
    }
    port = ntohs(address.sin_port);
  }

  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) return;
      const std::lock_guard lock(mutex);
      open_fds.push_back(fd);
      threads.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int raw) {
    UniqueFd fd(raw);
    std::string buffer;
    ScriptedRequest request;
    bool open = true;
    while (open && take_request(fd.get(), buffer, request)) {
      const ScriptedReply reply = answer(std::move(request));
      send_reply(fd.get(), reply);
      if (reply.after == After::kHang) {
        while (receive(fd.get(), buffer)) {
        }
      }
      open = reply.after == After::kKeep;
      if (reply.after == After::kReset) {
        forget(raw);
        close_with_reset(fd);
      }
    }
    forget(raw);
  }

  static bool take_request(int fd, std::string& buffer, ScriptedRequest& request) {
    std::size_t end;
    while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
      if (!receive(fd, buffer)) return false;
    }
    request = parse_head(buffer.substr(0, end + 2));
    buffer.erase(0, end + 4);
    if (request.header("expect") == "100-continue") send_all(fd, "HTTP/1.1 100 Continue\r\n\r\n");
    const auto size = std::strtoull(request.header("content-length").c_str(), nullptr, 10);
    while (buffer.size() < size) {
      if (!receive(fd, buffer)) return false;
    }
    request.body = buffer.substr(0, size);
    buffer.erase(0, size);
    return true;
  }

  ScriptedReply answer(ScriptedRequest request) {
    const std::lock_guard lock(script_mutex);
    {
      const std::lock_guard list_lock(mutex);
      request.number = static_cast<int>(requests.size());
      requests.push_back(request);
    }
    return script(request);
  }

  void forget(int fd) {
    const std::lock_guard lock(mutex);
    std::erase(open_fds, fd);
  }

  void stop() {
    ::shutdown(listener.get(), SHUT_RDWR);
    acceptor.join();
    {
      const std::lock_guard lock(mutex);
      for (const int fd : open_fds) ::shutdown(fd, SHUT_RDWR);
    }
    for (std::thread& thread : threads) thread.join();
  }

  Script script;
  UniqueFd listener;
  std::uint16_t port = 0;
  std::mutex script_mutex;
  std::mutex mutex;
  std::vector<int> open_fds;
  std::list<std::thread> threads;
  std::vector<ScriptedRequest> requests;
  std::thread acceptor;
};

ScriptedHttpServer::ScriptedHttpServer(Script script)
    : state_(std::make_unique<State>(std::move(script))) {
  state_->acceptor = std::thread([this] { state_->accept_all(); });
}
ScriptedHttpServer::~ScriptedHttpServer() { state_->stop(); }

std::string ScriptedHttpServer::url(const std::string& target) const {
  return "http://127.0.0.1:" + std::to_string(state_->port) + target;
}
std::uint16_t ScriptedHttpServer::port() const { return state_->port; }

std::vector<ScriptedRequest> ScriptedHttpServer::requests() const {
  const std::lock_guard lock(state_->mutex);
  return state_->requests;
}

std::string ScriptedRequest::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

std::uint64_t ScriptedRequest::range_start() const {
  const std::string range = header("range");
  return range.starts_with("bytes=") ? std::strtoull(range.c_str() + 6, nullptr, 10) : 0;
}

std::uint64_t ScriptedRequest::range_end() const {
  const std::string range = header("range");
  const std::size_t dash = range.find('-');
  if (dash == std::string::npos || dash + 1 == range.size()) return ~std::uint64_t{0};
  return std::strtoull(range.c_str() + dash + 1, nullptr, 10) + 1;
}

std::string http_reply(int status, std::string_view fields, std::string_view body) {
  return "HTTP/1.1 " + std::to_string(status) +
         " Scripted\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(fields) + "\r\n" + std::string(body);
}

std::string http_serve(const ScriptedRequest& request, std::string_view object,
                       std::string_view fields) {
  if (request.header("range").empty()) return http_reply(200, fields, object);
  const std::uint64_t start = request.range_start();
  const std::string total = std::to_string(object.size());
  if (start >= object.size()) {
    return http_reply(416, "Content-Range: bytes */" + total + "\r\n", "");
  }
  const std::uint64_t end = std::min<std::uint64_t>(object.size(), request.range_end());
  const std::string range = "Content-Range: bytes " + std::to_string(start) + "-" +
                            std::to_string(end - 1) + "/" + total + "\r\n";
  return http_reply(206, range + std::string(fields), object.substr(start, end - start));
}

}  // namespace millrace::testing

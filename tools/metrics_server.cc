#include "tools/metrics_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <map>
#include <stop_token>
#include <string_view>
#include <thread>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/base/threads.h"
#include "tools/parse.h"

namespace millrace::tools {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// An address of either family, as the system takes it.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
};

/// With size 0 for what is no number of either family.
SocketAddress socket_address(const ListenAddress& address) {
  SocketAddress made;
  sockaddr_in four{};
  sockaddr_in6 six{};
  if (::inet_pton(AF_INET, address.host.c_str(), &four.sin_addr) == 1) {
    four.sin_family = AF_INET;
    four.sin_port = htons(address.port);
    made.size = sizeof four;
    std::memcpy(&made.storage, &four, sizeof four);
  } else if (::inet_pton(AF_INET6, address.host.c_str(), &six.sin6_addr) == 1) {
    six.sin6_family = AF_INET6;
    six.sin6_port = htons(address.port);
    made.size = sizeof six;
    std::memcpy(&made.storage, &six, sizeof six);
  }
  return made;
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  int get() const { return fd_; }
  void release() { fd_ = -1; }

 private:
  int fd_;
};

std::uint16_t port_of(int socket) {
  SocketAddress bound;
  bound.size = sizeof bound.storage;
  ::getsockname(socket, bound.get(), &bound.size);
  // Both families have their port in the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound.storage)->sin_port);
}

/// Puts the socket where the address says. Returns false, with errno, where it may not be.
bool listen_on(int socket, SocketAddress address) {
  constexpr int kWaiting = 128;  // of connections to come, which the system holds
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.family() == AF_INET6) ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  return ::bind(socket, address.get(), address.size) == 0 && ::listen(socket, kWaiting) == 0;
}

MHD_Result take_parameter(void* into, MHD_ValueKind /*kind*/, const char* name,
                          const char* value) noexcept {
  auto& request = *static_cast<MetricsRequest*>(into);
  try {
    if (std::string_view(name) == "within")
      request.within = value == nullptr ? "" : value;
    else
      request.unknown = name;
    return MHD_YES;
  } catch (const std::exception&) {  // no memory
    return MHD_NO;
  }
}

MHD_Result send(MHD_Connection* connection, const MetricsPage& page) {
  MHD_Response* response = ::MHD_create_response_from_buffer(
      page.text.size(), const_cast<char*>(page.text.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  ::MHD_add_response_header(response, "Content-Type", page.type.c_str());
  ::MHD_add_response_header(response, "Connection", "close");
  if (page.status == MHD_HTTP_METHOD_NOT_ALLOWED)
    ::MHD_add_response_header(response, "Allow", "GET, HEAD");
  const MHD_Result sent = ::MHD_queue_response(connection, page.status, response);
  ::MHD_destroy_response(response);
  return sent;
}

}  // namespace

class MetricsServer::State {
 public:
  State(const ListenAddress& address, Answer answer, const MetricsServerOptions& options);
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const ListenAddress& address() const { return address_; }

 private:
  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* path,
                               const char* method, const char* version, const char* body,
                               std::size_t* body_bytes, void** request) noexcept;
  static void on_connection(void* self, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode code) noexcept;

  MetricsPage page(MHD_Connection* connection, const char* path, std::string_view method) const;
  void serve(const std::stop_token& stop);
  void end_overdue();

  ListenAddress address_;
  const Answer answer_;
  const MetricsServerOptions options_;
  std::map<int, SteadyClock::time_point> open_;  ///< connections, of the thread alone
  MHD_Daemon* daemon_ = nullptr;
  std::jthread thread_;
};

MetricsServer::State::State(const ListenAddress& address, Answer answer,
                            const MetricsServerOptions& options)
    : address_(address), answer_(std::move(answer)), options_(options) {
  const SocketAddress wanted = socket_address(address);
  Socket socket(::socket(wanted.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0 || !listen_on(socket.get(), wanted))
    throw Error(ErrorCode::kIo, fmt::format("listening on {} is not possible: {}", address.text(),
                                            std::strerror(errno)));
  address_.port = port_of(socket.get());
  const auto seconds =
      static_cast<unsigned>(std::chrono::ceil<std::chrono::seconds>(options.time_limit).count());
  daemon_ = ::MHD_start_daemon(
      MHD_USE_EPOLL, 0, nullptr, nullptr, &State::on_request, this, MHD_OPTION_LISTEN_SOCKET,
      socket.get(), MHD_OPTION_NOTIFY_CONNECTION, &State::on_connection, this,
      MHD_OPTION_CONNECTION_LIMIT, options.connections, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
      options.connection_bytes, MHD_OPTION_CONNECTION_TIMEOUT, seconds, MHD_OPTION_END);
  if (daemon_ == nullptr)
    throw Error(ErrorCode::kExhausted, "no HTTP server can be started on " + address_.text());
  socket.release();
  try {
    thread_ = start_thread("to answer questions about the run",
                           [this](const std::stop_token& stop) { serve(stop); });
  } catch (...) {
    ::MHD_stop_daemon(daemon_);
    throw;
  }
}

MetricsServer::State::~State() {
  thread_.request_stop();
  thread_.join();
  ::MHD_stop_daemon(daemon_);
}

void MetricsServer::State::serve(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds kBetweenLooks{50};
  constexpr int kLowPriority = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kLowPriority);
  while (!stop.stop_requested()) {
    const bool has_waited =
        ::MHD_run_wait(daemon_, static_cast<std::int32_t>(kBetweenLooks.count())) == MHD_YES;
    if (!has_waited) std::this_thread::sleep_for(kBetweenLooks);
    end_overdue();
  }
}

// Its own limit is that of silence, which a client that sends a byte a second never reaches. Where
// there is no room for the next one, the time is shorter.
void MetricsServer::State::end_overdue() {
  const bool is_full = open_.size() >= options_.connections;
  const auto since = SteadyClock::now() - (is_full ? options_.full_limit : options_.time_limit);
  for (const auto& [socket, begin] : open_)
    if (begin < since) ::shutdown(socket, SHUT_RDWR);
}

void MetricsServer::State::on_connection(void* self, MHD_Connection* connection, void** /*context*/,
                                         MHD_ConnectionNotificationCode code) noexcept {
  auto& state = *static_cast<State*>(self);
  const MHD_ConnectionInfo* info =
      ::MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  if (info == nullptr) return;
  if (code != MHD_CONNECTION_NOTIFY_STARTED) {
    state.open_.erase(info->connect_fd);
    return;
  }
  try {
    state.open_[info->connect_fd] = SteadyClock::now();
  } catch (const std::exception&) {  // no memory
    ::shutdown(info->connect_fd, SHUT_RDWR);
  }
}

// Answered at its first call, when the head has arrived: what follows is not read.
MHD_Result MetricsServer::State::on_request(void* self, MHD_Connection* connection,
                                            const char* path, const char* method,
                                            const char* /*version*/, const char* /*body*/,
                                            std::size_t* /*body_bytes*/,
                                            void** /*request*/) noexcept {
  const auto& state = *static_cast<const State*>(self);
  try {
    return send(connection, state.page(connection, path, method));
  } catch (const std::exception&) {  // no memory
    return MHD_NO;
  }
}

MetricsPage MetricsServer::State::page(MHD_Connection* connection, const char* path,
                                       std::string_view method) const {
  if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD)
    return {.status = MHD_HTTP_METHOD_NOT_ALLOWED, .text = "GET and HEAD only\n"};
  MetricsRequest request{.path = path};
  ::MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, &take_parameter, &request);
  return answer_(request);
}

bool ListenAddress::is_loopback() const { return host == "::1" || host.starts_with("127."); }

std::string ListenAddress::text() const {
  const bool is_four = host.find(':') == std::string::npos;
  return fmt::format("{}:{}", is_four ? host : "[" + host + "]", port);
}

ListenAddress parse_listen_address(const std::string& text) {
  constexpr std::int64_t kMostPort = 65'535;
  const std::size_t colon = text.rfind(':');
  ListenAddress address;
  if (colon != std::string::npos) address.host = text.substr(0, colon);
  const bool in_brackets = address.host.starts_with('[') && address.host.ends_with(']');
  if (in_brackets) address.host = address.host.substr(1, address.host.size() - 2);
  if (address.host == "localhost" || address.host.empty()) address.host = "127.0.0.1";
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  const bool has_colon = address.host.find(':') != std::string::npos;
  const std::int64_t number = number_or_zero(port);
  const bool is_port = (number > 0 && number <= kMostPort) || port == "0";
  if (!is_port || in_brackets != has_colon || socket_address(address).size == 0)
    throw Error(ErrorCode::kInvalidArgument,
                printable(text) + " is not ADDRESS:PORT, as in 127.0.0.1:9400 or [::1]:9400");
  address.port = static_cast<std::uint16_t>(number);
  return address;
}

MetricsServer::MetricsServer(const ListenAddress& address, Answer answer,
                             const MetricsServerOptions& options)
    : state_(std::make_unique<State>(address, std::move(answer), options)) {}

MetricsServer::~MetricsServer() = default;

const ListenAddress& MetricsServer::address() const { return state_->address(); }

}  // namespace millrace::tools

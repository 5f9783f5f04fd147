#include "python/worker_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "io/base/error.h"

namespace millrace::python {
namespace {

using namespace std::chrono_literals;

/// Of what goes over the socket, in this machine's order: as _function_worker.py has it.
struct CallMessage {
  std::uint64_t number;
  std::uint64_t function;
  std::uint64_t members;
  std::uint64_t memory_bytes;
};
/// Of an answer: the call's number, whether it raised, and bytes.
enum AnswerPart { kNumber, kRaised, kBytes };

/// Room for the text of what a function raises.
constexpr std::size_t kLeastMemory = std::size_t{64} * 1024;
constexpr std::size_t kPage = 4096;

std::span<const std::byte> text_bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::size_t size_of(const FunctionCall& call) {
  std::size_t bytes = 3 * sizeof(std::uint64_t) + call.key.size() + call.url.size();
  for (const FunctionCall::Member& member : call.members)
    bytes += 2 * sizeof(std::uint64_t) + member.suffix.size() + member.data.size();
  return bytes;
}

/// Whether all of it was sent; not if the other side has ended.
bool send_whole(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return true;
}

std::string ending_text(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return fmt::format("exit code {}", info.si_status);
  const char* name = sigdescr_np(info.si_status);
  return fmt::format("signal {} ({})", info.si_status, name == nullptr ? "unknown" : name);
}

}  // namespace

WorkerChannel::WorkerChannel(int socket, int memory, int pid)
    : socket_(socket), memory_file_(memory), pid_(pid) {}

WorkerChannel::~WorkerChannel() {
  if (memory_ != nullptr) ::munmap(memory_, memory_bytes_);
  ::close(socket_);
  ::close(memory_file_);
}

void WorkerChannel::grow(std::size_t bytes) {
  if (bytes <= memory_bytes_) return;
  const std::size_t more = std::max({bytes, kLeastMemory, 2 * memory_bytes_});
  const std::size_t whole = (more + kPage - 1) / kPage * kPage;
  const auto check = [](bool done) {
    if (!done)
      throw Error(ErrorCode::kExhausted,
                  fmt::format("memory for a sample of functions: {}", std::strerror(errno)));
  };
  check(::ftruncate(memory_file_, static_cast<off_t>(whole)) == 0);
  void* mapped = ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file_, 0);
  check(mapped != MAP_FAILED);
  if (memory_ != nullptr) ::munmap(memory_, memory_bytes_);
  memory_ = static_cast<std::byte*>(mapped);
  memory_bytes_ = whole;
}

/// A length, and what has it.
std::byte* WorkerChannel::put(std::byte* at, std::span<const std::byte> bytes) {
  const std::uint64_t length = bytes.size();
  std::memcpy(at, &length, sizeof length);
  at += sizeof length;
  if (!bytes.empty()) std::memcpy(at, bytes.data(), bytes.size());
  return at + bytes.size();
}

bool WorkerChannel::call(const FunctionCall& call) {
  grow(std::max(size_of(call), call.output_bytes));
  std::memcpy(memory_, &call.seed, sizeof call.seed);
  std::byte* at = put(memory_ + sizeof call.seed, text_bytes(call.key));
  at = put(at, text_bytes(call.url));
  for (const FunctionCall::Member& member : call.members) {
    at = put(at, text_bytes(member.suffix));
    at = put(at, member.data);
  }
  const std::array message = {CallMessage{.number = ++call_,
                                          .function = call.function,
                                          .members = call.members.size(),
                                          .memory_bytes = memory_bytes_}};
  busy_ = send_whole(socket_, std::as_bytes(std::span(message)));
  return busy_;
}

WorkerChannel::State WorkerChannel::wait_for(std::chrono::milliseconds timeout) {
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  const int count = ::poll(&ready, 1, static_cast<int>(timeout.count()));
  if (count <= 0) return State::kRunning;
  return receive();
}

/// What has come. An answer to another call is of a process that the function made, which goes on
/// as this one.
WorkerChannel::State WorkerChannel::receive() {
  const auto whole = std::as_writable_bytes(std::span(message_));
  const auto rest = whole.subspan(received_);
  const ssize_t got = ::recv(socket_, rest.data(), rest.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return State::kRunning;
  if (got <= 0) return State::kEnded;
  received_ += static_cast<std::size_t>(got);
  if (received_ < whole.size()) return State::kRunning;
  received_ = 0;
  if (message_[kNumber] != call_ || message_[kBytes] > memory_bytes_) return State::kEnded;
  busy_ = false;
  raised_ = message_[kRaised] != 0;
  answer_bytes_ = message_[kBytes];
  return State::kAnswered;
}

std::string WorkerChannel::how_it_ended() const {
  for (int tries = 0; tries < 50; ++tries) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT | WNOHANG) != 0) break;
    if (info.si_pid == pid_) return ending_text(info);
    std::this_thread::sleep_for(10ms);  // its socket ends a moment before it does
  }
  return "an unknown end";
}

}  // namespace millrace::python

#include "io/detail/files/pipe_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "io/base/clock.h"
#include "io/base/error.h"
#include "io/detail/files/stop_event.h"
#include "io/detail/files/unique_fd.h"

namespace millrace::io::detail {
namespace {

// A shell in its own process group, killed and reaped on destruction.
class Child {
 public:
  Child() = default;
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  Child& operator=(Child&&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  // Waits for the child and returns its wait status, 0 if there is no child; nullopt if it still
  // runs by `until`. A command may close its output long before it exits.
  std::optional<int> wait(const std::stop_token& stop, Clock::TimePoint until) {
    constexpr std::chrono::milliseconds kBetween{5};
    while (pid_ > 0) {
      const pid_t got = ::waitpid(pid_, &status_, WNOHANG);
      if (got == pid_) {
        pid_ = -1;
        break;
      }
      if (got < 0 && errno != EINTR) throw_errno("wait for", "the command", errno);
      if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "reading was stopped");
      if (Clock::system().now() >= until) return {};
      std::this_thread::sleep_for(kBetween);
    }
    return status_;
  }

 private:
  pid_t pid_ = -1;
  int status_ = 0;
};

class StreamSource final : public ByteSource {
 public:
  StreamSource(UniqueFd fd, Child child, std::string url, const OpenOptions& options,
               StreamPatience patience)
      : fd_(std::move(fd)),
        child_(std::move(child)),
        url_(std::move(url)),
        stop_(options.stop),
        stop_event_(options.stop),
        patience_(std::move(patience)),
        drop_(options.offset) {}

  std::size_t read(std::span<std::byte> into) override {
    try {
      drop_head(into);
      const std::size_t got = read_some(into);
      position_ += got;
      return got;
    } catch (Error& error) {
      error.annotate({.url = url_, .offset = position_});
      throw;
    }
  }
  std::uint64_t position() const override { return position_ + drop_; }
  std::optional<std::uint64_t> size() const override { return std::nullopt; }
  const std::string& url() const override { return url_; }

 private:
  void drop_head(std::span<std::byte> scratch) {
    while (drop_ > 0) {
      const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(drop_, scratch.size()));
      const std::size_t got = read_some(scratch.first(most));
      if (got == 0) throw Error(ErrorCode::kTruncated, "the stream ends before the offset");
      drop_ -= got;
      position_ += got;
    }
  }

  std::size_t read_some(std::span<std::byte> into) {
    if (ended_) return 0;
    for (;;) {
      wait_for("no data",
               [&](Clock::TimePoint until) { return stop_event_.wait_readable(fd_.get(), until); });
      const ssize_t got = ::read(fd_.get(), into.data(), into.size());
      if (got > 0) return static_cast<std::size_t>(got);
      if (got == 0) break;
      if (errno != EINTR && errno != EAGAIN) throw_errno("read", url_, errno);
    }
    check_status();
    ended_ = true;
    return 0;
  }

  // Until `came` says so; the wait is logged, and ends in a fault.
  void wait_for(const char* what, const std::function<bool(Clock::TimePoint until)>& came) {
    const Clock::TimePoint start = Clock::system().now();
    const auto said_after = std::min(patience_.said_after, patience_.limit);
    if (came(start + said_after)) return;
    if (patience_.say) patience_.say(url_, what, said_after);
    if (came(start + patience_.limit)) return;
    fail(
        fmt::format("{} for {:g} s", what, std::chrono::duration<double>(patience_.limit).count()));
  }

  void check_status() {
    int status = 0;
    wait_for("the command has closed its output and runs on", [&](Clock::TimePoint until) {
      const auto ended = child_.wait(stop_, until);
      status = ended.value_or(0);
      return ended.has_value();
    });
    if (WIFSIGNALED(status)) {
      fail("the command was killed by signal " + std::to_string(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) != 0) {
      fail("the command ended with status " + std::to_string(WEXITSTATUS(status)));
    }
  }
  [[noreturn]] void fail(std::string message) {
    throw Error(ErrorCode::kIo, std::move(message), {.url = url_, .offset = position_});
  }

  UniqueFd fd_;
  Child child_;
  std::string url_;
  std::stop_token stop_;
  StopEvent stop_event_;
  StreamPatience patience_;
  std::uint64_t drop_;
  std::uint64_t position_ = 0;
  bool ended_ = false;
};

// posix_spawn's two attribute objects, released together.
struct SpawnPlan {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;

  SpawnPlan() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  ~SpawnPlan() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&files);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  // No input, output to `out`, default signal handling: what a shell pipeline expects.
  void prepare(int out) {
    ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    sigset_t none;
    ::sigemptyset(&none);
    sigset_t all;
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
};

Child spawn_shell(const std::string& command, int out) {
  SpawnPlan plan;
  plan.prepare(out);
  std::array<const char*, 4> arguments{"sh", "-c", command.c_str(), nullptr};
  pid_t pid = -1;
  const int fault = ::posix_spawn(&pid, "/bin/sh", &plan.files, &plan.attributes,
                                  const_cast<char* const*>(arguments.data()), environ);
  if (fault != 0) throw_errno("run", "/bin/sh", fault);
  return Child(pid);
}

}  // namespace

std::unique_ptr<ByteSource> open_stream(UniqueFd fd, const std::string& name,
                                        const OpenOptions& options,
                                        const StreamPatience& patience) {
  return std::make_unique<StreamSource>(std::move(fd), Child(), name, options, patience);
}

std::unique_ptr<ByteSource> open_stdin(const OpenOptions& options, const StreamPatience& patience) {
  UniqueFd fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!fd) throw_errno("read", "standard input", errno);
  return open_stream(std::move(fd), "-", options, patience);
}

std::unique_ptr<ByteSource> open_pipe(const std::string& url, const OpenOptions& options,
                                      const StreamPatience& patience) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_errno("make a pipe for", url, errno);
  UniqueFd out(ends[0]);
  const UniqueFd in(ends[1]);
  Child child = spawn_shell(url.substr(url.find(':') + 1), in.get());
  return std::make_unique<StreamSource>(std::move(out), std::move(child), url, options, patience);
}

}  // namespace millrace::io::detail

#include "trainer/mpi/detail/launcher_guard.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>

namespace millrace::trainer::detail {
namespace {

constexpr std::array<std::string_view, 4> kLaunchers{"mpirun", "orterun", "mpiexec", "prterun"};

bool is_launcher(pid_t process) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", process)), name);
  return std::ranges::find(kLaunchers, name) != kLaunchers.end();
}

/// Whether the process of a pidfd ends within `patience`.
bool ends_within(int process, std::chrono::seconds patience) {
  pollfd one{.fd = process, .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, static_cast<int>(patience.count() * 1000)) != 0;
}

// Between fork and exit only what is safe there: other threads may have held locks.
[[noreturn]] void guard(int launcher, std::chrono::seconds patience) {
  ::setsid();  // the launcher ends what is in its processes' sessions
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  if (!ends_within(launcher, patience))
    ::syscall(SYS_pidfd_send_signal, launcher, SIGKILL, nullptr, 0);
  ::_exit(0);
}

}  // namespace

void guard_launcher(std::chrono::seconds patience) {
  const pid_t parent = ::getppid();
  if (!is_launcher(parent)) return;
  const int launcher = static_cast<int>(::syscall(SYS_pidfd_open, parent, 0));
  if (launcher < 0) return;
  const pid_t between = ::fork();
  if (between == 0) {  // its child belongs to nobody, whom the launcher would wait for
    if (::fork() == 0) guard(launcher, patience);
    ::_exit(0);
  }
  if (between > 0) ::waitpid(between, nullptr, 0);
  ::close(launcher);
}

}  // namespace millrace::trainer::detail

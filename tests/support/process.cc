#include "tests/support/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "io/detail/files/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace millrace::testing {
namespace {

using Clock = std::chrono::steady_clock;

void redirect(const std::string& path, int flags, int to) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (fd < 0 || ::dup2(fd, to) < 0) ::_exit(127);
}

void limit(int what, std::size_t value) {
  const rlimit soft{value,
                    value + 1};  // exceeding RLIMIT_CPU's hard limit would be an anonymous SIGKILL
  if (value > 0 && ::setrlimit(static_cast<__rlimit_resource>(what), &soft) != 0) ::_exit(127);
}

/// In the child, after fork(): becomes the program, or exits with 127.
[[noreturn]] void become(const std::vector<std::string>& words, const ProcessOptions& options,
                         const TempDir& files) {
  redirect(files / "in", O_RDONLY, STDIN_FILENO);
  redirect(files / "out", O_WRONLY | O_CREAT, STDOUT_FILENO);
  redirect(files / "err", O_WRONLY | O_CREAT, STDERR_FILENO);
  if (!options.folder.empty() && ::chdir(options.folder.c_str()) != 0) ::_exit(127);
  limit(RLIMIT_CPU, static_cast<std::size_t>(options.cpu_seconds));
  limit(RLIMIT_DATA, options.data_bytes);
  for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  ::_exit(127);
}

/// Until the process ends, or the time is over.
void await_end(const io::detail::UniqueFd& process, std::chrono::milliseconds most) {
  pollfd ended{.fd = process.get(), .events = POLLIN, .revents = 0};
  if (process.get() < 0) most = std::min(most, std::chrono::milliseconds(1));  // before Linux 5.3
  ::poll(&ended, 1, static_cast<int>(most.count()));
}

/// Waits for the child, sending what the options ask for.
int await(pid_t child, const ProcessOptions& options, Clock::time_point start, rusage& used) {
  bool signalled = options.signal_after.count() == 0 && !options.signal_when;
  const io::detail::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  int status = 0;
  while (::wait4(child, &status, WNOHANG, &used) == 0) {
    const auto age = Clock::now() - start;
    const bool due = options.signal_when ? options.signal_when() : age >= options.signal_after;
    if (!signalled && due) {
      ::kill(child, options.signal);
      signalled = true;
    }
    if (age >= options.limit) {
      ADD_FAILURE() << "killed after its time limit";
      ::kill(child, SIGKILL);
    }
    constexpr std::chrono::milliseconds kMoment(1);
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(options.limit - age);
    await_end(process, signalled ? std::max(rest, kMoment) : kMoment);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& words, const ProcessOptions& options) {
  const TempDir files;
  write_file(files / "in", options.input);
  const auto start = Clock::now();
  const pid_t child = ::fork();
  if (child == 0) become(words, options, files);
  ProcessResult result;
  if (child < 0) {
    ADD_FAILURE() << "fork failed";
    return result;
  }
  rusage used{};
  result.status = await(child, options, start, used);
  result.peak_bytes = static_cast<std::size_t>(used.ru_maxrss) * 1024;
  result.took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  result.out = read_file(files / "out");
  result.err = read_file(files / "err");
  return result;
}

bool has_modules(const std::string& python, const std::string& modules) {
  static constexpr const char* kLookUp =
      "import importlib.util as i, sys\n"
      "sys.exit(not all(i.find_spec(m.strip()) for m in sys.argv[1].split(',')))";
  return run_process({python, "-c", kLookUp, modules}).status == 0;
}

std::string oracle_python(const std::string& modules) {
  const char* given = ::getenv("MILLRACE_ORACLE_PYTHON");
  // Not by a relative path: who runs it may do so in another folder.
  const std::string python =
      std::filesystem::absolute(given != nullptr ? given : "build/oracle/bin/python").string();
  if (!std::filesystem::exists(python)) return {};
  return has_modules(python, modules) ? python : std::string();
}

}  // namespace millrace::testing

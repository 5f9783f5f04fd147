#include "tests/support/python_worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace millrace::testing {

PythonWorker::PythonWorker(const std::string& python, const std::string& modules)
    : questions_(nullptr, std::fclose), answers_(nullptr, std::fclose) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) {
    ADD_FAILURE() << "no pipe";
    return;
  }
  process_ = ::fork();
  if (process_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::setenv("OMP_NUM_THREADS", "1", 1);
    ::execl(python.c_str(), python.c_str(), "tests/support/python_worker.py", modules.c_str(),
            nullptr);
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::signal(SIGPIPE, SIG_IGN);  // a worker that has ended is a status of -1
  questions_.reset(::fdopen(in[1], "w"));
  answers_.reset(::fdopen(out[0], "r"));
}

PythonWorker::~PythonWorker() {
  questions_.reset();
  if (process_ > 0) ::waitpid(process_, nullptr, 0);
}

int PythonWorker::run(const std::vector<std::string>& words, const std::string& out) {
  if (!questions_ || !answers_) return -1;
  std::string line = out;
  for (const std::string& word : words) line += '\t' + word;
  std::fprintf(questions_.get(), "%s\n", line.c_str());
  std::fflush(questions_.get());
  int status = -1;
  return std::fscanf(answers_.get(), "%d", &status) == 1 ? status : -1;
}

}  // namespace millrace::testing

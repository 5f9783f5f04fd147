// PythonWorker: a Python that imports what takes seconds once, and runs each script in a fork of
// itself.
//
//   PythonWorker torch("/usr/bin/python3", "torch,torchvision");
//   EXPECT_EQ(0, torch.run({"tests/trainer/torch_models.py", "lenet", folder}));
//
// It lives as long as the test program, which runs the tests that share it (millrace_test's
// TOGETHER). Threads: one at a time.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace millrace::testing {

class PythonWorker {
 public:
  PythonWorker(const std::string& python, const std::string& modules);
  ~PythonWorker();
  PythonWorker(const PythonWorker&) = delete;
  PythonWorker& operator=(const PythonWorker&) = delete;

  /// A script and its arguments, in the test's folder; its standard output goes to the file `out`.
  /// Returns its exit status, -1 if the worker has ended. Requires: no tab or newline in a word.
  int run(const std::vector<std::string>& words, const std::string& out = "/dev/null");

 private:
  using File = std::unique_ptr<FILE, int (*)(FILE*)>;
  pid_t process_ = -1;
  File questions_, answers_;
};

}  // namespace millrace::testing

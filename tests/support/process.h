// run_process: runs a program to its end and captures its output.
//
//   const ProcessResult result = run_process({"/bin/echo", "hello"});
//   EXPECT_EQ(result.status, 0);  EXPECT_EQ(result.out, "hello\n");
//
// A program that is still running after the time limit is killed, and its test fails.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace millrace::testing {

struct ProcessOptions {
  /// Set in addition to the test's environment.
  std::map<std::string, std::string> environment = {};
  /// The working folder; empty: the test's.
  std::string folder = {};
  /// The content of standard input.
  std::string input = {};
  std::chrono::milliseconds limit{120'000};
  /// Seconds of processor time after which SIGXCPU ends it, however busy the machine; 0: no limit.
  int cpu_seconds = 0;
  /// Limit of private memory in bytes; 0: no limit.
  std::size_t data_bytes = 0;
  /// Sends `signal` after this time, or as soon as `signal_when` holds; 0 and none: never.
  std::chrono::milliseconds signal_after{0};
  std::function<bool()> signal_when = {};
  int signal = 0;
};

struct ProcessResult {
  /// The exit status; 128 + N if signal N ended it.
  int status = -1;
  std::string out;
  std::string err;
  std::chrono::milliseconds took{0};
  /// Peak resident memory, in bytes.
  std::size_t peak_bytes = 0;
};

ProcessResult run_process(const std::vector<std::string>& words,
                          const ProcessOptions& options = {});

/// Whether a Python has `modules` ("numpy, torch"): looked up, not imported, which takes seconds.
bool has_modules(const std::string& python, const std::string& modules);
/// The Python of MILLRACE_ORACLE_PYTHON (default: build/oracle/bin/python) if it has `modules`;
/// else empty.
std::string oracle_python(const std::string& modules);

}  // namespace millrace::testing

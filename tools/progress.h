// Progress: a line on the terminal that shows a command's progress; nothing without a terminal.
//
//   Progress progress("samples", total);
//   progress.at(done);      // redraws at most ten times per second
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace millrace::tools {

class Progress {
 public:
  /// `total` 0: unknown.
  Progress(std::string unit, std::uint64_t total);
  /// Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(std::uint64_t done);

 private:
  using Clock = std::chrono::steady_clock;

  std::string unit_;
  std::uint64_t total_;
  bool on_terminal_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_ = start_;
  bool visible_ = false;
};

}  // namespace millrace::tools

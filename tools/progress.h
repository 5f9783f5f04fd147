// Progress: the last line of the terminal, which shows what a command does; nothing without a
// terminal.
//
//   Progress progress(context.terminal, "samples", total);
//   progress.at(done);      // redraws at most ten times per second
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "trainer/progress_bar.h"

namespace millrace::tools {

class Progress {
 public:
  /// `terminal` is borrowed; null: none. `total` 0: unknown. Until the first at() the line says
  /// what is waited for, if `waits_for` does.
  Progress(trainer::TerminalLine* terminal, std::string unit, std::uint64_t total,
           const std::string& waits_for = {});
  /// Erases the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(std::uint64_t done);

 private:
  using Clock = std::chrono::steady_clock;

  std::string text(std::uint64_t done) const;

  trainer::TerminalLine* terminal_;
  std::string unit_;
  std::uint64_t total_;
  Clock::time_point start_ = Clock::now();
};

/// Says on the terminal, if there is one, what the command does until it prints or shows the next.
void show_status(trainer::TerminalLine* terminal, const std::string& text);

}  // namespace millrace::tools

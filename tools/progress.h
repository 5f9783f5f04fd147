// Progress: the last line of the terminal, which shows what a command does; nothing without a
// terminal.
//
//   Progress progress(context.terminal, "samples", total);
//   progress.at(done);             // redraws at most ten times per second
//   progress.at(done, elapsed / seconds);    // where another thing than `total` ends it
//
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
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
  /// `share` of the work is done, of which `total` says nothing.
  void at(std::uint64_t done, double share);

 private:
  using Clock = std::chrono::steady_clock;

  std::string text(std::uint64_t done, std::optional<double> share) const;

  trainer::TerminalLine* terminal_;
  std::string unit_;
  std::uint64_t total_;
  Clock::time_point start_ = Clock::now();
};

/// Says on the terminal, if there is one, what the command does until it prints or shows the next.
void show_status(trainer::TerminalLine* terminal, const std::string& text);

}  // namespace millrace::tools

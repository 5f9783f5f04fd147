// Progress: the last line of the terminal, which shows what a command does; nothing without a
// terminal.
//
//   Progress progress(context.terminal, "samples", total);
//   progress.at(done);             // redraws at most ten times per second
//   progress.at(done, elapsed / seconds);    // where another thing than `total` ends it
//
// Where it is not known how many there are, or one takes long, what is read says how far it is:
//
//   Progress progress(context.terminal, "shards", shards.size(), "reading the shards");
//   check(*progress.follow(opener, shards));
//
// Threads: at() any; the rest one at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "io/opener.h"
#include "trainer/progress_bar.h"

namespace millrace::tools {

class ReadShare;

/// How long the share of what is read is shown: to the end, until the first at(), or until it
/// where the total is known.
enum class Follow { kToTheEnd, kUntilTheFirst, kUnlessCounted };

class Progress {
 public:
  /// `terminal` is borrowed; null: none. `total` 0: unknown. Until the first at() the line says
  /// what is waited for, if `waits_for` does.
  Progress(trainer::TerminalLine* terminal, std::string unit, std::uint64_t total,
           std::string waits_for = {});
  /// Erases the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void at(std::uint64_t done);
  /// `share` of the work is done, of which `total` says nothing.
  void at(std::uint64_t done, double share);

  /// The opener to read `shards` with: the line then says how much of them has been read, to the
  /// end or until the first at(). Once. `opener` itself where there is no terminal.
  std::shared_ptr<const io::Opener> follow(std::shared_ptr<const io::Opener> opener,
                                           std::span<const std::string> shards,
                                           Follow how_long = Follow::kToTheEnd);

 private:
  using Clock = std::chrono::steady_clock;

  double seconds() const;
  std::string text(std::uint64_t done, std::optional<double> share) const;
  std::string read_text(std::uint64_t done, double share, std::uint64_t bytes) const;
  void show_read(double share, std::uint64_t bytes);

  trainer::TerminalLine* terminal_;
  std::string unit_;
  std::uint64_t total_;
  std::string waits_for_;
  Clock::time_point start_ = Clock::now();
  std::atomic<std::uint64_t> done_{0};
  Follow how_long_ = Follow::kToTheEnd;
  std::unique_ptr<ReadShare> reads_;
};

/// Says on the terminal, if there is one, what the command does until it prints or shows the next.
void show_status(trainer::TerminalLine* terminal, const std::string& text);

}  // namespace millrace::tools

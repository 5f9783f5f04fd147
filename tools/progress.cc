#include "tools/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace millrace::tools {

Progress::Progress(trainer::TerminalLine* terminal, std::string unit, std::uint64_t total,
                   const std::string& waits_for)
    : terminal_(terminal), unit_(std::move(unit)), total_(total) {
  if (!waits_for.empty()) show_status(terminal_, waits_for);
}

Progress::~Progress() {
  if (terminal_ != nullptr) terminal_->clear();
}

std::string Progress::text(std::uint64_t done, std::optional<double> share) const {
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  const std::string rate =
      fmt::format("{:.0f}/s", static_cast<double>(done) / std::max(seconds, 1e-3));
  if (!share) return fmt::format("{} {}, {}", done, unit_, rate);
  const std::string percent = fmt::format("{:3.0f} %", 100.0 * *share);
  const std::string left = trainer::time_left_text(*share, seconds);
  const std::string of_total = total_ == 0 ? "" : fmt::format("/{}", total_);
  const std::array tails = {
      fmt::format("{} {}{} {}, {}{}", percent, done, of_total, unit_, rate, left),
      fmt::format("{} {}{}", percent, rate, left), percent};
  return trainer::bar_line("", *share, tails, terminal_->width());
}

void Progress::at(std::uint64_t done) {
  if (terminal_ == nullptr || !terminal_->due()) return;
  std::optional<double> share;
  if (total_ > 0) share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  terminal_->show(text(done, share));
}

void Progress::at(std::uint64_t done, double share) {
  if (terminal_ != nullptr && terminal_->due()) terminal_->show(text(done, std::min(1.0, share)));
}

void show_status(trainer::TerminalLine* terminal, const std::string& text) {
  if (terminal != nullptr) terminal->show(text);
}

}  // namespace millrace::tools

#include "tools/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "tools/read_share.h"

namespace millrace::tools {
namespace {

/// "1079/s"; of what takes its time "0.43/s".
std::string rate_text(double rate) {
  return rate < 10 ? fmt::format("{:.2g}/s", rate) : fmt::format("{:.0f}/s", rate);
}

}  // namespace

Progress::Progress(trainer::TerminalLine* terminal, std::string unit, std::uint64_t total,
                   std::string waits_for)
    : terminal_(terminal), unit_(std::move(unit)), total_(total), waits_for_(std::move(waits_for)) {
  if (!waits_for_.empty()) show_status(terminal_, waits_for_);
}

Progress::~Progress() {
  reads_.reset();  // which draws no more
  if (terminal_ != nullptr) terminal_->clear();
}

double Progress::seconds() const {
  return std::max(std::chrono::duration<double>(Clock::now() - start_).count(), 1e-3);
}

std::string Progress::text(std::uint64_t done, std::optional<double> share) const {
  const std::string rate = rate_text(static_cast<double>(done) / seconds());
  if (!share) return fmt::format("{} {}, {}", done, unit_, rate);
  const std::string percent = fmt::format("{:3.0f} %", 100.0 * *share);
  const std::string left = trainer::time_left_text(*share, seconds());
  const std::string of_total = total_ == 0 ? "" : fmt::format("/{}", total_);
  const std::array tails = {
      fmt::format("{} {}{} {}, {}{}", percent, done, of_total, unit_, rate, left),
      fmt::format("{} {}{}", percent, rate, left), percent};
  return trainer::bar_line("", *share, tails, terminal_->width());
}

std::string Progress::read_text(std::uint64_t done, double share, std::uint64_t bytes) const {
  const double megabytes = static_cast<double>(bytes) / 1e6;
  const std::string rate = fmt::format("{:.3g} MB/s", megabytes / seconds());
  const std::string percent = fmt::format("{:3.0f} %", 100.0 * share);
  const std::string left = trainer::time_left_text(share, seconds());
  const bool waits = done == 0 && !waits_for_.empty();
  const std::string count = total_ == 0 ? fmt::format("{} {}", done, unit_)
                                        : fmt::format("{}/{} {}", done, total_, unit_);
  const std::array tails = {
      fmt::format("{} {}, {}{}", percent, waits ? fmt::format("{:.1f} MB", megabytes) : count, rate,
                  left),
      fmt::format("{} {}{}", percent, rate, left), fmt::format("{}{}", percent, left)};
  const std::string head = waits ? waits_for_ + " " : "";
  if (share == 0.0) return fmt::format("{}{:.1f} MB, {}", head, megabytes, rate);  // pipes
  return trainer::bar_line(head, share, tails, terminal_->width());
}

void Progress::at(std::uint64_t done) {
  done_ = done;
  if (terminal_ == nullptr || !terminal_->due()) return;
  std::optional<double> share;
  if (total_ > 0) share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  // What is done without being read whole counts as done.
  if (reads_ && how_long_ == Follow::kToTheEnd && reads_->share() > 0)
    return terminal_->show(
        read_text(done, std::max(reads_->share(), share.value_or(0)), reads_->bytes()));
  terminal_->show(text(done, share));
}

void Progress::at(std::uint64_t done, double share) {
  done_ = done;
  if (terminal_ != nullptr && terminal_->due()) terminal_->show(text(done, std::min(1.0, share)));
}

std::shared_ptr<const io::Opener> Progress::follow(std::shared_ptr<const io::Opener> opener,
                                                   std::span<const std::string> shards,
                                                   Follow how_long) {
  if (terminal_ == nullptr || !terminal_->is_active()) return opener;
  how_long_ = how_long != Follow::kUnlessCounted ? how_long
              : total_ > 0                       ? Follow::kUntilTheFirst
                                                 : Follow::kToTheEnd;
  reads_ = std::make_unique<ReadShare>(
      std::move(opener), shards,
      [this](double share, std::uint64_t bytes) { show_read(share, bytes); });
  return reads_->opener();
}

void Progress::show_read(double share, std::uint64_t bytes) {
  const std::uint64_t done = done_;
  if (done > 0 && how_long_ == Follow::kUntilTheFirst) return;
  // What is over at once leaves the terminal to what follows; indexes are no part of the shards.
  if (seconds() < (share > 0 ? 0.1 : 1.0)) return;
  if (terminal_->due()) terminal_->show(read_text(done, share, bytes));
}

void show_status(trainer::TerminalLine* terminal, const std::string& text) {
  if (terminal != nullptr) terminal->show(text);
}

}  // namespace millrace::tools

#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace millrace::tools {
namespace {

constexpr std::uint64_t kBarWidth = 30;

std::string bar(std::uint64_t done, std::uint64_t total) {
  const std::uint64_t full = std::min(done, total) * kBarWidth / total;
  return fmt::format("[{}{}] {:3} %", std::string(full, '='), std::string(kBarWidth - full, ' '),
                     std::min(done, total) * 100 / total);
}

}  // namespace

Progress::Progress(std::string unit, std::uint64_t total)
    : unit_(std::move(unit)), total_(total), on_terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void Progress::at(std::uint64_t done) {
  const auto now = Clock::now();
  if (!on_terminal_ || now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  visible_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string head = total_ > 0 ? bar(done, total_) + " " : "";
  const std::string line = fmt::format("\r\033[K{}{} {}, {:.0f}/s", head, done, unit_,
                                       static_cast<double>(done) / seconds);
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace millrace::tools

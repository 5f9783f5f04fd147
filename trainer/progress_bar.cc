#include "trainer/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace millrace::trainer {
namespace {

constexpr std::chrono::milliseconds kBetweenDraws{100};

std::size_t terminal_width(std::FILE* terminal) {
  winsize size{};
  const bool known = ::ioctl(::fileno(terminal), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

std::string bar(double share, std::size_t width) {
  const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
  std::string text(std::min(full, width), '=');
  if (full < width) text += '>';
  text.resize(width, ' ');
  return text;
}

}  // namespace

ProgressBar::ProgressBar(std::FILE* terminal)
    : terminal_(terminal), active_(::isatty(::fileno(terminal)) == 1) {}

std::string ProgressBar::text(const StepEvent& event, std::size_t width) {
  std::string tail = fmt::format("loss {:.4f} lr {:.4g} {:.0f}/s", event.mean_loss, event.lr,
                                 event.global_rate * event.world);
  if (event.steps_per_epoch <= 0) {
    return fmt::format("Epoch {} step {} {}", event.epoch, event.step, tail).substr(0, width);
  }
  const double share = static_cast<double>(event.step) / static_cast<double>(event.steps_per_epoch);
  tail = fmt::format("{:3.0f} % {}/{} {}", 100.0 * share, event.step, event.steps_per_epoch, tail);
  const std::string head = fmt::format("Epoch {} ", event.epoch);
  const std::size_t used = head.size() + tail.size() + 3;
  const std::size_t room = width > used + 5 ? std::min<std::size_t>(30, width - used) : 5;
  return fmt::format("{}[{}] {}", head, bar(std::min(1.0, share), room), tail).substr(0, width);
}

bool ProgressBar::due() {
  const auto now = std::chrono::steady_clock::now();
  if (!active_ || now - last_ < kBetweenDraws) return false;
  last_ = now;
  return true;
}

void ProgressBar::draw(const std::string& line) {
  std::fputs(("\r\033[K" + line).c_str(), terminal_);
  std::fflush(terminal_);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) draw("");
  drawn_ = false;
}

void ProgressBar::on_step(const StepEvent& event) {
  if (due()) draw(text(event, terminal_width(terminal_) - 1));
}

void ProgressBar::on_evaluation_step(std::int64_t batches) {
  if (due()) draw(fmt::format("Evaluating, batch {}", batches));
}

void ProgressBar::on_train_end(const EpochEvent& /*event*/) { clear(); }
void ProgressBar::on_epoch_end(const EpochEvent& /*event*/) { clear(); }
void ProgressBar::on_log_step(const StepEvent& /*event*/) { clear(); }

}  // namespace millrace::trainer

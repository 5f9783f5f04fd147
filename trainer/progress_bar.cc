#include "trainer/progress_bar.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "trainer/log_lines.h"

namespace millrace::trainer {
namespace {

constexpr std::chrono::milliseconds kBetweenDraws{100};
constexpr std::size_t kLeastBar = 5;
constexpr std::size_t kMostBar = 30;

std::string bar(double share, std::size_t width) {
  const auto full = static_cast<std::size_t>(share * static_cast<double>(width));
  std::string text(std::min(full, width), '=');
  if (full < width) text += '>';
  text.resize(width, ' ');
  return text;
}

bool is_dumb_terminal() {
  const char* kind = std::getenv("TERM");
  return kind != nullptr && std::string_view(kind) == "dumb";
}

double share_of(std::int64_t done, std::int64_t all) {
  return std::min(1.0, static_cast<double>(done) / static_cast<double>(all));
}

}  // namespace

// A dumb terminal cannot erase a line.
TerminalLine::TerminalLine(std::FILE* terminal, bool is_wanted)
    : terminal_(terminal),
      active_(is_wanted && ::isatty(::fileno(terminal)) == 1 && !is_dumb_terminal()) {}

std::size_t TerminalLine::width() const {
  winsize size{};
  const bool known = ::ioctl(::fileno(terminal_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (known ? size.ws_col : 80) - 1;  // a full line would wrap
}

bool TerminalLine::due() {
  const auto now = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  if (!active_ || now - last_ < kBetweenDraws) return false;
  last_ = now;
  return true;
}

void TerminalLine::draw(std::string_view text) {
  const std::string line = fmt::format("\r\033[K{}", text);
  std::fputs(line.c_str(), terminal_);
  std::fflush(terminal_);
}

void TerminalLine::show(std::string_view text) {
  if (!active_) return;
  const std::lock_guard lock(mutex_);
  text_ = text.substr(0, width());
  draw(text_);
}

void TerminalLine::clear() {
  const std::lock_guard lock(mutex_);
  if (text_.empty()) return;
  text_.clear();
  draw("");
}

void TerminalLine::print(std::string_view line) {
  const std::lock_guard lock(mutex_);
  draw(fmt::format("{}\n", line));
  if (!text_.empty()) draw(text_);
}

Log TerminalLine::log() {
  return Log::to_function([this](LogLevel level, const std::string& line) {
    print(fmt::format("{}{}",
                      level == LogLevel::kError  ? "error: "
                      : level == LogLevel::kWarn ? "warning: "
                                                 : "",
                      line));
  });
}

std::string bar_line(std::string_view head, double share, std::span<const std::string> tails,
                     std::size_t width) {
  for (const std::string& tail : tails) {
    const std::size_t used = head.size() + tail.size() + 3;
    if (used + kLeastBar > width && &tail != &tails.back()) continue;
    const std::size_t room = std::clamp(width - std::min(used, width), kLeastBar, kMostBar);
    return fmt::format("{}[{}] {}", head, bar(share, room), tail).substr(0, width);
  }
  return {};
}

std::string time_left_text(double share, double seconds) {
  constexpr double kLeastSeconds = 1.0;
  if (share <= 0.0 || share >= 1.0 || seconds < kLeastSeconds) return {};
  return ", " + duration_text(seconds * (1.0 - share) / share) + " left";
}

std::string ProgressBar::text(const StepEvent& event, std::size_t width, const std::string& left) {
  const std::string loss = fmt::format("loss {:.4f}", event.mean_loss);
  const std::string rate = fmt::format("{:.0f}/s", event.total_rate);
  if (event.steps_per_epoch <= 0)
    return fmt::format("Epoch {} step {} {} lr {:.4g} {}", event.epoch, event.step, loss, event.lr,
                       rate)
        .substr(0, width);
  const double share = share_of(event.step, event.steps_per_epoch);
  const std::string place =
      fmt::format("{:3.0f} % {}/{}", 100.0 * share, event.step, event.steps_per_epoch);
  const std::array tails = {fmt::format("{} {} lr {:.4g} {}{}", place, loss, event.lr, rate, left),
                            fmt::format("{} {} {}{}", place, loss, rate, left),
                            fmt::format("{} {}{}", place, rate, left),
                            fmt::format("{} {}", place, rate)};
  return bar_line(fmt::format("Epoch {} ", event.epoch), share, tails, width);
}

double ProgressBar::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

void ProgressBar::show(const std::string& text) {
  if (line() != nullptr) line()->show(text);
}

void ProgressBar::clear() {
  if (line() != nullptr) line()->clear();
}

void ProgressBar::begin(const std::string& text) {
  show(text);
  first_step_ = 0;
  begin_ = Clock::now();
}

void ProgressBar::on_fit_start() { show("Reading the first batch"); }

void ProgressBar::on_epoch_start(std::int64_t epoch) {
  begin(fmt::format("Epoch {}, waiting for the first batch", epoch));
}

// The first step, which compiles the model, is no measure of the others.
void ProgressBar::on_step(const StepEvent& event) {
  if (first_step_ == 0) {
    first_step_ = event.step;
    begin_ = Clock::now();
  }
  if (!due()) return;
  const std::int64_t all = event.steps_per_epoch - first_step_;
  const double share = all > 0 ? share_of(event.step - first_step_, all) : 0.0;
  show(text(event, width(), time_left_text(share, seconds())));
}

void ProgressBar::on_evaluation_start(std::int64_t /*epoch*/) {
  begin("Evaluating, waiting for the first batch");
}

// evaluate() has no start hook; the first batch compiles the model.
void ProgressBar::on_evaluation_step(std::int64_t batches) {
  if (batches == 1) begin_ = Clock::now();
  if (!due()) return;
  if (evaluation_batches_ <= 0) return show(fmt::format("Evaluating, batch {}", batches));
  const double share = share_of(batches, evaluation_batches_);
  const std::array tails = {fmt::format("{:3.0f} % {}/{} batches{}", 100.0 * share, batches,
                                        evaluation_batches_, time_left_text(share, seconds())),
                            fmt::format("{:3.0f} %", 100.0 * share)};
  show(bar_line("Evaluating ", share, tails, width()));
}

void ProgressBar::on_evaluation_end(const EpochEvent& /*event*/) { clear(); }
void ProgressBar::on_train_end(const EpochEvent& /*event*/) { clear(); }
void ProgressBar::on_epoch_end(const EpochEvent& /*event*/) { clear(); }

}  // namespace millrace::trainer

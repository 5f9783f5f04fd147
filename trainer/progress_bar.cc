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

/// `line` in pieces that fit the width, between its words: a terminal would break within them.
std::string broken(std::string_view line, std::size_t width) {
  constexpr std::string_view kContinued = "\n  ";
  const std::size_t continued = std::max(width, kContinued.size()) + 1 - kContinued.size();
  std::string text;
  for (std::size_t room = width;; room = continued) {
    const std::size_t end = line.size() > room ? line.rfind(' ', room) : line.npos;
    if (end == line.npos || end <= line.find_first_not_of(' ')) return text.append(line);
    text.append(line.substr(0, end)).append(kContinued);
    line.remove_prefix(end + 1);
  }
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
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\n', begin), line.size());
    draw(broken(line.substr(begin, end - begin), width()) + "\n");
    begin = end + 1;
  }
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

std::string ProgressBar::text(const StepEvent& event, std::size_t width, const BarNotes& notes) {
  const std::string loss = fmt::format("loss {:.4f}", event.mean_loss);
  const std::string rate = fmt::format("{:.0f}/s", event.total_rate);
  const std::string head = notes.epochs > 0 ? fmt::format("Epoch {}/{} ", event.epoch, notes.epochs)
                                            : fmt::format("Epoch {} ", event.epoch);
  if (event.steps_per_epoch <= 0)
    return fmt::format("{}step {} {} lr {:.4g} {}", head, event.step, loss, event.lr, rate)
        .substr(0, width);
  const double share = share_of(event.step, event.steps_per_epoch);
  const std::string percent = fmt::format("{:3.0f} %", 100.0 * share);
  const std::string place = fmt::format("{} {}/{}", percent, event.step, event.steps_per_epoch);
  const std::string wait =
      notes.wait_share ? fmt::format(", wait {:.0f} %", 100.0 * *notes.wait_share) : "";
  const std::string times = notes.left + notes.run_left;
  const std::array tails = {
      fmt::format("{} {}{} lr {:.4g} {}{}{}", place, loss, notes.measure, event.lr, rate, wait,
                  times),
      fmt::format("{} {}{} {}{}{}", place, loss, notes.measure, rate, wait, times),
      fmt::format("{} {} {}{}{}", place, loss, rate, wait, times),
      fmt::format("{} {} {}{}", place, loss, rate, notes.left),
      fmt::format("{} {} {}{}", percent, loss, rate, notes.left),
      fmt::format("{} {}{}", place, rate, notes.left),
      fmt::format("{} {}", place, rate)};
  return bar_line(head, share, tails, width);
}

/// Of the run, whose later epochs are taken to be as long as those so far.
std::string ProgressBar::run_left(double epochs_done) const {
  const double all = static_cast<double>(epochs_) - first_place_;
  const double done = epochs_done - first_place_;
  if (epochs_ < 2 || done <= 0 || all <= 0) return {};
  const double elapsed = std::chrono::duration<double>(Clock::now() - run_begin_).count();
  const std::string left = time_left_text(done / all, elapsed);
  return left.empty() ? left : ", run" + left.substr(1);
}

BarNotes ProgressBar::notes(const StepEvent& event) const {
  const std::int64_t all = event.steps_per_epoch - first_step_;
  const double share = all > 0 ? share_of(event.step - first_step_, all) : 0.0;
  BarNotes notes{.epochs = epochs_, .left = time_left_text(share, seconds()), .measure = measure_};
  if (event.steps_per_epoch > 0)
    notes.run_left = run_left(static_cast<double>(event.epoch - 1) +
                              share_of(event.step, event.steps_per_epoch));
  const double total = times_.total();
  if (total > 0) notes.wait_share = times_.wait / total;
  return notes;
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
    times_ = {};
  } else {
    times_.add(event.times);
  }
  if (first_place_ < 0 && event.steps_per_epoch > 0) {
    first_place_ =
        static_cast<double>(event.epoch - 1) + share_of(event.step, event.steps_per_epoch);
    run_begin_ = begin_;
  }
  if (due()) show(text(event, width(), notes(event)));
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

void ProgressBar::on_evaluation_end(const EpochEvent& event) {
  clear();
  const auto named = std::ranges::find_if(
      event.val, [](const auto& one) { return one.first != "loss" && !is_class_iou(one.first); });
  if (named != event.val.end())
    measure_ = fmt::format(" val {} {:.3f}", named->first, named->second);
}

void ProgressBar::on_checkpoint_start(const std::string& path) {
  show("Saving checkpoint " + path.substr(path.rfind('/') + 1));
}

void ProgressBar::on_checkpoint_step(const CheckpointStep& step) {
  if (!due()) return;
  constexpr double kMega = 1e6;
  const std::array tails = {fmt::format("{:3.0f} % of {:.0f} MB", 100.0 * step.share,
                                        static_cast<double>(step.bytes) / kMega),
                            fmt::format("{:3.0f} %", 100.0 * step.share)};
  const std::string name = step.path.substr(step.path.rfind('/') + 1);
  show(bar_line("Saving checkpoint " + name + " ", step.share, tails, width()));
}

void ProgressBar::on_checkpoint(const std::string& /*path*/) { clear(); }
void ProgressBar::on_fault(const FaultEvent& /*event*/) { clear(); }
void ProgressBar::on_train_end(const EpochEvent& /*event*/) { clear(); }
void ProgressBar::on_epoch_end(const EpochEvent& /*event*/) { clear(); }

}  // namespace millrace::trainer

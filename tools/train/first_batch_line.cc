#include "tools/train/first_batch_line.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <chrono>
#include <utility>

#include "io/base/thread_annotations.h"

namespace millrace::tools {

class FirstBatchLine::State {
 public:
  State(trainer::TerminalLine* terminal, const Clock& clock) : clock_(clock), terminal_(terminal) {}

  void wait_for(std::string what) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (what_ == what) return;
    waits_ = !what.empty() && terminal_ != nullptr;
    what_ = std::move(what);
    bytes_ = 0;
    start_ = clock_.now();
  }
  void arrived() { wait_for({}); }
  /// Nothing is drawn from here on.
  void end() MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    waits_ = false;
    what_.clear();
    terminal_ = nullptr;
  }
  void ask(trainer::WatchedRun::Input input) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    input_ = std::move(input);
  }

  void take(std::size_t bytes) MILLRACE_EXCLUDES(mutex_) {
    if (!waits_) return;  // nearly always: every read of a run comes here
    MutexLock lock(mutex_);
    bytes_ += bytes;
    if (what_.empty() || terminal_ == nullptr) return;
    const double seconds = std::chrono::duration<double>(clock_.now() - start_).count();
    if (seconds < kWorthSaying || !terminal_->due()) return;
    terminal_->show(text(seconds));
  }

 private:
  std::string text(double seconds) MILLRACE_REQUIRES(mutex_) {
    const double megabytes = static_cast<double>(bytes_) / 1e6;
    const std::string rate = fmt::format("{:.3g} MB/s", megabytes / seconds);
    const auto input = input_ ? input_() : std::nullopt;
    if (input && input->statistics.restored_samples < input->statistics.samples_to_restore)
      return restore_text(input->statistics, rate, seconds);
    return fmt::format("{}, {:.1f} MB read, {}", what_, megabytes, rate);
  }

  std::string restore_text(const pipeline::Statistics& input, const std::string& rate,
                           double seconds) const MILLRACE_REQUIRES(mutex_) {
    const auto done = static_cast<double>(input.restored_samples);
    const double share = done / static_cast<double>(input.samples_to_restore);
    const std::string percent = fmt::format("{:3.0f} %", 100 * share);
    const std::string left = trainer::time_left_text(share, seconds);
    const std::array tails = {
        fmt::format("{} {}/{} samples read again, {}{}", percent, input.restored_samples,
                    input.samples_to_restore, rate, left),
        fmt::format("{} {}{}", percent, rate, left), fmt::format("{}{}", percent, left)};
    return trainer::bar_line("Filling the shuffle buffer ", share, tails, terminal_->width());
  }

  // A shorter wait leaves the terminal to the bar.
  static constexpr double kWorthSaying = 0.5;

  const Clock& clock_;
  Mutex mutex_;
  trainer::TerminalLine* terminal_ MILLRACE_GUARDED_BY(mutex_);
  std::string what_ MILLRACE_GUARDED_BY(mutex_);  ///< empty: a batch is there
  std::uint64_t bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Clock::TimePoint start_ MILLRACE_GUARDED_BY(mutex_);
  trainer::WatchedRun::Input input_ MILLRACE_GUARDED_BY(mutex_);
  std::atomic<bool> waits_ = false;  ///< something is to be drawn
};

FirstBatchLine::Watched::Watched(FirstBatchLine& line, trainer::WatchedRun::Input input)
    : state_(line.state_) {
  if (state_) state_->ask(std::move(input));
}

FirstBatchLine::Watched::~Watched() {
  if (state_) state_->ask({});
}

FirstBatchLine::FirstBatchLine(trainer::TerminalLine* terminal, const Clock& clock)
    : state_(terminal != nullptr && terminal->is_active() ? std::make_shared<State>(terminal, clock)
                                                          : nullptr) {}

FirstBatchLine::~FirstBatchLine() {
  if (state_) state_->end();
}

OpenerHooks FirstBatchLine::hooks() const {
  if (!state_) return {};
  return {.on_read = [state = state_](const std::string&, const io::ByteSource&,
                                      std::size_t bytes) { state->take(bytes); }};
}

void FirstBatchLine::on_fit_start() {
  if (state_) state_->wait_for("Waiting for the first batch");
}

void FirstBatchLine::on_epoch_start(std::int64_t epoch) {
  if (state_) state_->wait_for(fmt::format("Epoch {}, waiting for a batch", epoch));
}

void FirstBatchLine::on_evaluation_start(std::int64_t /*epoch*/) {
  if (state_) state_->wait_for("Evaluating, waiting for a batch");
}

void FirstBatchLine::on_step_start(const trainer::StepStart& /*step*/) {
  if (state_) state_->arrived();
}

void FirstBatchLine::on_evaluation_step(std::int64_t /*batches*/) {
  if (state_) state_->arrived();
}

void FirstBatchLine::on_fit_end(const trainer::EndEvent& /*event*/) {
  if (state_) state_->arrived();
}

}  // namespace millrace::tools

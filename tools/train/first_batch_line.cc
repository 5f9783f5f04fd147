#include "tools/train/first_batch_line.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "io/base/thread_annotations.h"

namespace millrace::tools {

class FirstBatchLine::State {
 public:
  explicit State(trainer::TerminalLine* terminal) : terminal_(terminal) {}

  void wait_for(std::string what) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    if (what_ == what) return;
    what_ = std::move(what);
    bytes_ = 0;
    start_ = Clock::now();
  }
  void arrived() { wait_for({}); }
  /// Nothing is drawn from here on.
  void end() MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    what_.clear();
    terminal_ = nullptr;
  }

  void take(std::size_t bytes) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    bytes_ += bytes;
    if (what_.empty() || terminal_ == nullptr) return;
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (seconds < kWorthSaying || !terminal_->due()) return;
    const double megabytes = static_cast<double>(bytes_) / 1e6;
    terminal_->show(
        fmt::format("{}, {:.1f} MB read, {:.3g} MB/s", what_, megabytes, megabytes / seconds));
  }

 private:
  using Clock = std::chrono::steady_clock;
  // A shorter wait leaves the terminal to the bar.
  static constexpr double kWorthSaying = 0.5;

  Mutex mutex_;
  trainer::TerminalLine* terminal_ MILLRACE_GUARDED_BY(mutex_);
  std::string what_ MILLRACE_GUARDED_BY(mutex_);  ///< empty: a batch is there
  std::uint64_t bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  Clock::time_point start_ MILLRACE_GUARDED_BY(mutex_);
};

FirstBatchLine::FirstBatchLine(trainer::TerminalLine* terminal)
    : state_(terminal != nullptr && terminal->is_active() ? std::make_shared<State>(terminal)
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

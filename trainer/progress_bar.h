// ProgressBar: a run's progress as the last line of a terminal; on anything else it draws nothing.
// TerminalLine: that line, below the text that a program prints meanwhile.
//
//   TerminalLine terminal;
//   const Log log = terminal.log();    // its lines are printed above
//   ProgressBar bar(&terminal);
//
// Threads: TerminalLine any; ProgressBar as Observer.
#pragma once

#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/base/log.h"
#include "trainer/observer.h"

namespace millrace::trainer {

class TerminalLine {
 public:
  /// Draws on `terminal`, borrowed, if it is one and `is_wanted`.
  explicit TerminalLine(std::FILE* terminal = stderr, bool is_wanted = true);
  /// Erases the line.
  ~TerminalLine() { clear(); }
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  bool is_active() const { return active_; }
  /// Columns that a line may have.
  std::size_t width() const;
  /// Replaces the line, cut to the width.
  void show(std::string_view text);
  void clear();
  /// Whether a tenth of a second has passed since the last time that this returned true.
  bool due();
  /// Writes lines to the terminal as Log::to_stderr() does, above this one. Lifetime: this
  /// object's.
  Log log();

 private:
  void draw(std::string_view text);
  void print(std::string_view line);

  std::FILE* terminal_;
  bool active_;
  std::mutex mutex_;
  std::string text_;  ///< what is drawn
  std::chrono::steady_clock::time_point last_{};
};

/// "Epoch 3 [=====>    ] 57 % 222/391 1079/s": a bar between `head` and the first of `tails` that
/// leaves room for one in `width` columns; the last one is cut.
std::string bar_line(std::string_view head, double share, std::span<const std::string> tails,
                     std::size_t width);
/// ", 0:01:12 left" of `seconds` for the share that is done; empty where nothing can be said yet.
std::string time_left_text(double share, double seconds);

/// What the line of a step says beside the step's own numbers, as far as it is known.
struct BarNotes {
  std::int64_t epochs = 0;                ///< of the run
  std::string left = {};                  ///< time_left_text() of the epoch
  std::string run_left = {};              ///< ", run 0:12:40 left"
  std::string measure = {};               ///< of the last evaluation: " val top1 0.892"
  std::optional<double> wait_share = {};  ///< of the epoch's time so far
};

class ProgressBar final : public Observer {
 public:
  /// Draws on `terminal`, borrowed, if it is one.
  explicit ProgressBar(std::FILE* terminal = stderr) : own_(std::in_place, terminal) {}
  /// Null: draws nothing.
  explicit ProgressBar(TerminalLine* terminal) : line_(terminal) {}
  /// Erases the line.
  ~ProgressBar() override { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void clear();

  /// The batches of rank 0 in an evaluation; 0: unknown.
  void expect_evaluation(std::int64_t batches) { evaluation_batches_ = batches; }
  /// The epochs of the run; 0: unknown.
  void expect_epochs(std::int64_t epochs) { epochs_ = epochs; }

  void on_fit_start() override;
  void on_epoch_start(std::int64_t epoch) override;
  void on_step(const StepEvent& event) override;
  void on_evaluation_start(std::int64_t epoch) override;
  void on_evaluation_step(std::int64_t batches) override;
  void on_evaluation_end(const EpochEvent& event) override;
  void on_train_end(const EpochEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;
  void on_checkpoint_start(const std::string& path) override;
  void on_checkpoint_step(const CheckpointStep& step) override;
  void on_checkpoint(const std::string& path) override;
  void on_fault(const FaultEvent& event) override;

  /// The line's text, at most `width` columns: "Epoch 3/40 [=====>    ]  57 % 222/391 loss 0.2676
  /// val top1 0.892 lr 0.1 1079/s, wait 2 %, 0:00:12 left, run 0:10:31 left". What does not fit is
  /// left out, the learning rate first.
  static std::string text(const StepEvent& event, std::size_t width, const BarNotes& notes = {});

 private:
  using Clock = std::chrono::steady_clock;

  TerminalLine* line() { return own_ ? &*own_ : line_; }
  bool due() { return line() != nullptr && line()->due(); }
  std::size_t width() { return line()->width(); }
  void show(const std::string& text);
  void begin(const std::string& text);
  double seconds() const;
  BarNotes notes(const StepEvent& event) const;
  std::string run_left(double epochs_done) const;

  std::optional<TerminalLine> own_;
  TerminalLine* line_ = nullptr;
  std::int64_t evaluation_batches_ = 0;
  std::int64_t epochs_ = 0;
  std::int64_t first_step_ = 0;  ///< of what is timed: the epoch's first step in this run
  double first_place_ = -1;      ///< in epochs, where this run begins; below 0: no step yet
  std::string measure_;
  StepTimes times_;  ///< of the epoch's steps but the first
  Clock::time_point begin_ = Clock::now();
  Clock::time_point run_begin_ = Clock::now();
};

}  // namespace millrace::trainer

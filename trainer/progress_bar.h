// ProgressBar: a run's progress as one line on a terminal; on anything else it draws nothing.
//
// Threads: as Observer.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "trainer/observer.h"

namespace millrace::trainer {

class ProgressBar final : public Observer {
 public:
  /// Draws on `terminal`, borrowed, if it is one.
  explicit ProgressBar(std::FILE* terminal = stderr);

  void on_step(const StepEvent& event) override;
  void on_evaluation_step(std::int64_t batches) override;
  void on_train_end(const EpochEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;
  void on_log_step(const StepEvent& event) override;

  /// The line's text, at most `width` columns: "Epoch 3 [=====>    ]  57 % 222/391 loss 0.2676 lr
  /// 0.1 1079/s".
  static std::string text(const StepEvent& event, std::size_t width);

 private:
  bool due();
  void draw(const std::string& line);
  void clear();

  std::FILE* terminal_;
  bool active_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace millrace::trainer

// ProgressBar: one line on a terminal that tells how a run goes; nothing where there is none.
//
// Threads: as an Observer.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "trainer/observer.h"

namespace millrace::trainer {

class ProgressBar final : public Observer {
 public:
  /// Draws on `terminal` if it is one. Borrowed.
  explicit ProgressBar(std::FILE* terminal = stderr);

  void on_step(const StepEvent& event) override;
  void on_evaluation_step(std::int64_t batches) override;
  void on_train_end(const EpochEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;
  void on_log_step(const StepEvent& event) override;

  /// The line's text, `width` columns wide: "Epoch 3 [=====>    ]  57 % 222/391 loss 0.2676
  /// 1079/s".
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

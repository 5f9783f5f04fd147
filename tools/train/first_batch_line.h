// FirstBatchLine: what an epoch that waits for its first batch has read meanwhile, on the terminal:
// a shuffle buffer that is filled from far away, or, where a run continues in mid-epoch, filled
// again.
//
//   FirstBatchLine line(terminal);
//   fit(input_read_with(line.hooks()), options, {&bar, &line});      // behind the bar
//
// Threads: the hooks of observers as Observer; hooks() any, and they may outlive this object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tools/metered_opener.h"
#include "trainer/observer.h"
#include "trainer/progress_bar.h"

namespace millrace::tools {

class FirstBatchLine final : public trainer::Observer {
 public:
  /// `terminal` is borrowed; null: none, and no hooks.
  explicit FirstBatchLine(trainer::TerminalLine* terminal);
  ~FirstBatchLine() override;
  FirstBatchLine(const FirstBatchLine&) = delete;
  FirstBatchLine& operator=(const FirstBatchLine&) = delete;

  OpenerHooks hooks() const;

  void on_fit_start() override;
  void on_epoch_start(std::int64_t epoch) override;
  void on_evaluation_start(std::int64_t epoch) override;
  void on_step_start(const trainer::StepStart& step) override;
  void on_evaluation_step(std::int64_t batches) override;
  void on_fit_end(const trainer::EndEvent& event) override;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace millrace::tools

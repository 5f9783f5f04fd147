// FirstBatchLine: what an epoch that waits for its first batch has read meanwhile, on the terminal:
// a shuffle buffer that is filled from far away, or, where a run continues in mid-epoch, filled
// again, of which it is known how many samples are to be read.
//
//   FirstBatchLine line(terminal);
//   const FirstBatchLine::Watched watched(line, [&] { return input.train_state(); });
//   fit(input_read_with(line.hooks()), options, {&bar, &line});      // behind the bar
//
// Threads: the hooks of observers as Observer; hooks() any, and they may outlive this object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/base/clock.h"
#include "tools/metered_opener.h"
#include "trainer/observer.h"
#include "trainer/progress_bar.h"
#include "trainer/prometheus_metrics.h"

namespace millrace::tools {

class FirstBatchLine final : public trainer::Observer {
  class State;

 public:
  /// `terminal` and `clock` are borrowed; no terminal: no line, and no hooks.
  explicit FirstBatchLine(trainer::TerminalLine* terminal, const Clock& clock = Clock::system());
  ~FirstBatchLine() override;
  FirstBatchLine(const FirstBatchLine&) = delete;
  FirstBatchLine& operator=(const FirstBatchLine&) = delete;

  OpenerHooks hooks() const;

  /// As long as it exists, the line knows what `input` says of the samples that are read again:
  /// `input` is called on the threads that read. One at a time.
  class Watched {
   public:
    Watched(FirstBatchLine& line, trainer::WatchedRun::Input input);
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    std::shared_ptr<State> state_;
  };

  void on_fit_start() override;
  void on_epoch_start(std::int64_t epoch) override;
  void on_evaluation_start(std::int64_t epoch) override;
  void on_step_start(const trainer::StepStart& step) override;
  void on_evaluation_step(std::int64_t batches) override;
  void on_fit_end(const trainer::EndEvent& event) override;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace millrace::tools

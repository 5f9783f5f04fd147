// MetricsLog: metrics.jsonl, one JSON object a line: every logged step, every epoch, the end.
//
// Threads: as Observer.
#pragma once

#include <fstream>
#include <string>

#include "trainer/observer.h"

namespace millrace::trainer {

class MetricsLog final : public Observer {
 public:
  /// Appends to the file at `path`. Throws: Io, here and in on_...().
  explicit MetricsLog(const std::string& path);

  void on_log_step(const StepEvent& event) override { write(to_json(event)); }
  void on_epoch_end(const EpochEvent& event) override { write(to_json(event)); }
  void on_fit_end(const EndEvent& event) override { write(to_json(event)); }

 private:
  void write(const std::string& line);

  std::string path_;
  std::ofstream file_;
};

}  // namespace millrace::trainer

// MetricsCsv: metrics.csv in long form, which every spreadsheet and data frame reads:
// event,epoch,global_step,name,value.
//
// Threads: as an Observer.
#pragma once

#include <fstream>
#include <string>
#include <string_view>

#include "trainer/observer.h"

namespace millrace::trainer {

class MetricsCsv final : public Observer {
 public:
  /// Appends to the file at `path`; a new one gets its header. Throws: Io.
  explicit MetricsCsv(const std::string& path);

  void on_step(const StepEvent& event) override { global_step_ = event.global_step; }
  void on_log_step(const StepEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;

 private:
  void row(std::string_view event, std::int64_t epoch, const std::string& name, double value);
  void flush();

  std::string path_;
  std::ofstream file_;
  std::int64_t global_step_ = 0;
};

}  // namespace millrace::trainer

// MetricsLog and MetricsCsv: a run's metrics as files for programs.
//
// Threads: as Observer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "io/append_file.h"
#include "trainer/observer.h"

namespace millrace::trainer {

/// metrics.jsonl, one JSON object per line: every logged step, every epoch and how long its
/// checkpoints took, the end. Of a run that fails the fault, and before it the last steps, logged
/// or not.
class MetricsLog final : public Observer {
 public:
  /// Appends to `file`. Throws: Io, in on_...().
  explicit MetricsLog(std::unique_ptr<io::AppendFile> file) : file_(std::move(file)) {
    io::end_torn_line(*file_);
  }
  /// Appends to the file at `path`. Throws: Io, here and in on_...().
  explicit MetricsLog(const std::string& path) : MetricsLog(io::open_append_file(path)) {}

  void on_step(const StepEvent& event) override;
  void on_log_step(const StepEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;
  void on_saved(const SavedEvent& event) override;
  void on_fit_end(const EndEvent& event) override { write(to_json(event)); }
  void on_fault(const FaultEvent& event) override;

 private:
  void write(const std::string& line) { file_->append(line + '\n'); }

  static constexpr std::size_t kMostUnlogged = 32;

  std::unique_ptr<io::AppendFile> file_;
  std::deque<StepEvent> unlogged_;  ///< the last ones since the last line
};

/// metrics.csv in long form, for spreadsheets and data frames: event,epoch,global_step,name,value.
/// `rate` is samples/s of all replicas, of steps lately and of epochs.
class MetricsCsv final : public Observer {
 public:
  /// Appends to `file`; an empty one gets a header line. Throws: Io, here and in on_...().
  explicit MetricsCsv(std::unique_ptr<io::AppendFile> file);
  /// The same with the file at `path`.
  explicit MetricsCsv(const std::string& path) : MetricsCsv(io::open_append_file(path)) {}

  void on_step(const StepEvent& event) override { global_step_ = event.global_step; }
  void on_log_step(const StepEvent& event) override;
  void on_epoch_end(const EpochEvent& event) override;

 private:
  void row(std::string_view event, std::int64_t epoch, const std::string& name, double value);
  void flush();

  std::unique_ptr<io::AppendFile> file_;
  std::string rows_;  ///< of the current event
  std::int64_t global_step_ = 0;
};

}  // namespace millrace::trainer

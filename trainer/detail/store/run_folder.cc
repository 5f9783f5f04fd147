#include "trainer/detail/store/run_folder.h"

#include <fmt/format.h>

#include <utility>

#include "io/base/host.h"
#include "trainer/metrics_files.h"
#include "trainer/metrics_report.h"
#include "trainer/tensorboard_log.h"

namespace millrace::trainer::detail {
namespace {

/// Writes the metrics report to report.txt after every epoch.
class ReportFile final : public Observer {
 public:
  explicit ReportFile(RunFiles& files) : files_(files) {}
  void on_epoch_start(std::int64_t epoch) override { report_.on_epoch_start(epoch); }
  void on_step(const StepEvent& event) override { report_.on_step(event); }
  void on_epoch_end(const EpochEvent& event) override {
    report_.on_epoch_end(event);
    files_.write("report.txt", report_.text());
  }

 private:
  RunFiles& files_;
  MetricsReport report_;
};

}  // namespace

RunFolder::RunFolder(std::unique_ptr<RunFiles> files, const std::string& config_json,
                     const Topology& topology)
    : files_(std::move(files)), host_(host_name()), first_rank_(topology.first_rank()) {
  if (!files_) return;
  if (topology.process == 0) open_run_logs(config_json);
  for (int device = 0; device < topology.devices; ++device)
    rank_logs_.push_back(files_->append(fmt::format("rank-{}.log", first_rank_ + device)));
}

void RunFolder::open_run_logs(const std::string& config_json) {
  if (!config_json.empty()) files_->write("config.json", config_json);
  writers_.push_back(std::make_unique<MetricsLog>(files_->append("metrics.jsonl")));
  writers_.push_back(std::make_unique<MetricsCsv>(files_->append("metrics.csv")));
  writers_.push_back(std::make_unique<TensorBoardLog>(files_->append(TensorBoardLog::new_name())));
  writers_.push_back(std::make_unique<ReportFile>(*files_));
}

std::vector<Observer*> RunFolder::observers() const {
  std::vector<Observer*> all;
  for (const auto& writer : writers_) all.push_back(writer.get());
  return all;
}

void RunFolder::line(int rank, const std::string& text) const {
  if (rank_logs_.empty()) return;
  rank_logs_[static_cast<std::size_t>(rank - first_rank_)]->append(
      fmt::format("{} rank {} | {}\n", host_, rank, text));
}

void RunFolder::finish() {
  if (files_) files_->finish();
}

}  // namespace millrace::trainer::detail

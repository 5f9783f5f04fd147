#include "trainer/detail/run_folder.h"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>

#include "io/base/error.h"
#include "io/byte_sink.h"
#include "trainer/metrics_files.h"
#include "trainer/metrics_report.h"
#include "trainer/tensorboard_log.h"

namespace millrace::trainer::detail {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

void write_text(const std::string& path, const std::string& text) {
  const auto sink = io::open_file_sink(path, {.replace = io::Replace::kAtomically});
  sink->write(std::as_bytes(std::span(text)));
  sink->finish();
}

/// Writes the metrics report to report.txt after every epoch.
class ReportFile final : public Observer {
 public:
  explicit ReportFile(std::string path) : path_(std::move(path)) {}
  void on_epoch_start(std::int64_t epoch) override { report_.on_epoch_start(epoch); }
  void on_step(const StepEvent& event) override { report_.on_step(event); }
  void on_epoch_end(const EpochEvent& event) override {
    report_.on_epoch_end(event);
    write_text(path_, report_.text());
  }

 private:
  std::string path_;
  MetricsReport report_;
};

}  // namespace

RunFolder::RunFolder(const std::string& path, const std::string& config_json, int devices) {
  if (path.empty()) return;
  io::check_local_path(path);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw_errno("create folder", path, error.value());
  if (!config_json.empty()) write_text(path + "/config.json", config_json);
  writers_.push_back(std::make_unique<MetricsLog>(path + "/metrics.jsonl"));
  writers_.push_back(std::make_unique<MetricsCsv>(path + "/metrics.csv"));
  writers_.push_back(std::make_unique<TensorBoardLog>(path));
  writers_.push_back(std::make_unique<ReportFile>(path + "/report.txt"));
  const std::string host = host_name();
  for (int rank = 0; rank < devices; ++rank) {
    const std::string number = std::to_string(rank);
    rank_logs_.push_back(
        Log::to_file(path + "/rank-" + number + ".log", host + " rank " + number + " | "));
  }
}

std::vector<Observer*> RunFolder::observers() const {
  std::vector<Observer*> all;
  for (const auto& writer : writers_) all.push_back(writer.get());
  return all;
}

void RunFolder::line(int rank, const std::string& text) const {
  if (!rank_logs_.empty()) rank_logs_[static_cast<std::size_t>(rank)].info(text);
}

}  // namespace millrace::trainer::detail

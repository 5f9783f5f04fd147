#include "trainer/detail/store/run_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/base/error.h"
#include "io/base/host.h"
#include "io/local_path.h"
#include "trainer/detail/store/checkpoint_folder.h"
#include "trainer/metrics_files.h"
#include "trainer/metrics_report.h"
#include "trainer/tensorboard_log.h"

namespace millrace::trainer::detail {
namespace {

namespace fs = std::filesystem;

/// Writes the metrics report to report.txt after every epoch.
class ReportFile final : public Observer {
 public:
  explicit ReportFile(RunFiles& files) : files_(files) {}
  void on_step(const StepEvent& event) override { report_.on_step(event); }
  void on_epoch_end(const EpochEvent& event) override {
    report_.on_epoch_end(event);
    files_.write("report.txt", report_.text());
  }

 private:
  RunFiles& files_;
  MetricsReport report_;
};

constexpr const char* kMetricsFile = "metrics.jsonl";
constexpr const char* kCheckpoints = "checkpoints";

/// Whether a run writes a file or folder of this name. Others are the user's own.
bool is_runs_own(std::string_view name) {
  for (const std::string_view own : {kCheckpoints, kMetricsFile, "metrics.csv", "report.txt",
                                     "report.html", "run.json", "config.json"})
    if (name == own) return true;
  return name.starts_with("events.out.tfevents.") || name.ends_with("_losses.npy") ||
         (name.starts_with("rank-") && name.ends_with(".log"));
}

void rename_into(const std::string& name, const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from + "/" + name, to + "/" + name, error);
  if (error) throw_errno("move to " + to, from + "/" + name, error.value());
}

std::string make_free_folder(const std::string& folder) {
  int number = 1;
  std::string path;
  std::error_code error;
  do {
    path = fmt::format("{}/replaced-{}", folder, number++);
  } while (fs::exists(path));
  fs::create_directory(path, error);
  if (error) throw_errno("create folder", path, error.value());
  return path;
}

void move_earlier_run(const std::string& folder, const Log& log) {
  std::vector<std::string> names = io::names_in(folder);
  std::erase_if(names, [](const std::string& name) { return !is_runs_own(name); });
  const bool is_run = std::ranges::any_of(
      names, [](const std::string& name) { return name == kCheckpoints || name == kMetricsFile; });
  if (!is_run) return;
  std::ranges::sort(names);
  const std::string place = make_free_folder(folder);
  for (const std::string& name : names) rename_into(name, folder, place);
  log.info(fmt::format("the earlier run's files are in {} now: {}", place, fmt::join(names, ", ")));
}

bool has_checkpoint(const std::string& folder, const io::Opener& opener) {
  const std::string place = folder + "/" + kCheckpoints;
  const std::string manifest = std::string("/") + kManifestName;
  if (io::is_network_url(folder))
    return std::ranges::any_of(
        opener.list(place + "/", {.recursive = true}),
        [&](const io::ListedObject& object) { return object.url.ends_with(manifest); });
  std::error_code ignored;
  const fs::directory_iterator entries(place, ignored);
  return std::any_of(begin(entries), end(entries), [&](const fs::directory_entry& entry) {
    return fs::exists(entry.path().string() + manifest, ignored);
  });
}

/// The objects of an earlier run, manifests first: what is left of a checkpoint is then none.
std::vector<std::string> objects_of_run(const std::string& folder, const io::Opener& opener,
                                        const std::stop_token& stop) {
  std::vector<std::string> urls;
  for (const io::ListedObject& object :
       opener.list(folder + "/", {.recursive = true, .stop = stop})) {
    const std::string_view name = std::string_view(object.url).substr(folder.size() + 1);
    if (is_runs_own(name.substr(0, name.find('/')))) urls.push_back(object.url);
  }
  std::stable_partition(urls.begin(), urls.end(), [](const std::string& url) {
    return url.ends_with(std::string("/") + kManifestName);
  });
  return urls;
}

void remove_earlier_run(const std::string& folder, const io::Opener& opener, const Log& log,
                        const std::stop_token& stop) {
  const std::vector<std::string> urls = objects_of_run(folder, opener, stop);
  if (urls.empty()) return;
  for (const std::string& url : urls) opener.remove(url, stop);
  log.info(fmt::format("the earlier run's checkpoints and metrics were removed from {}",
                       io::printable_url(folder)));
}

}  // namespace

// Files of these names alone may be anybody's.
void set_earlier_run_aside(const std::string& folder, const io::Opener& opener, const Log& log,
                           const std::stop_token& stop) {
  if (!has_metrics(folder, opener) && !has_checkpoint(folder, opener)) return;
  if (io::is_network_url(folder)) return remove_earlier_run(folder, opener, log, stop);
  move_earlier_run(folder, log);
}

bool has_metrics(const std::string& folder, const io::Opener& opener) {
  if (!io::is_network_url(folder)) return fs::exists(folder + "/" + kMetricsFile);
  return std::ranges::any_of(opener.list(folder + "/"), [](const io::ListedObject& object) {
    return object.url.ends_with(std::string("/") + kMetricsFile);
  });
}

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
  writers_.push_back(std::make_unique<MetricsLog>(files_->append(kMetricsFile)));
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

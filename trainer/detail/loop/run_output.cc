#include "trainer/detail/loop/run_output.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/host.h"
#include "trainer/log_lines.h"

namespace millrace::trainer::detail {

RunOutput::RunOutput(Processes& processes, const TrainOptions& options, const io::Opener& opener,
                     const std::vector<Observer*>& observers)
    : processes_(processes), options_(options), opener_(opener), observers_(observers) {}

void RunOutput::lock_if_there() {
  const std::string& folder = options_.run_folder;
  if (io::is_network_url(folder) || std::filesystem::exists(folder)) lock();
}

void RunOutput::lock() {
  if (options_.run_folder.empty() || lock_) return;
  lock_.emplace(options_.run_folder,
                RunLockOptions{.opener = &opener_, .stop = options_.stop, .log = options_.log});
}

void RunOutput::check_in_place() const {
  if (lock_) lock_->check_in_place();
}

void RunOutput::open_files() {
  const std::string& folder = options_.run_folder;
  folder_.emplace(
      folder.empty() ? nullptr : open_run_files(folder, opener_, options_.stop, options_.log),
      options_.config_json, processes_.cluster().topology());
  for (Observer* observer : folder_->observers()) observers_.push_back(observer);
}

// A host whose disk does not take them trains as well as the others.
void RunOutput::open_rank_logs() {
  if (processes_.is_alone()) return;
  const std::string folder = processes_.decide([this] { return options_.run_folder; });
  if (folder.empty()) return;
  const Topology topology = processes_.cluster().topology();
  std::string fault;
  try {
    if (!processes_.is_first())
      folder_.emplace(open_run_files(folder, opener_, options_.stop, options_.log), "", topology);
  } catch (const Error& error) {
    fault = fmt::format("process {} on {}: {}", topology.process, host_name(), error.what());
  }
  for (const std::string& one : processes_.gather(fault))
    if (!one.empty()) options_.log.warn("the logs of some ranks are not written: " + one);
}

void RunOutput::finish() {
  std::exception_ptr fault;
  try {
    if (folder_) folder_->finish();
  } catch (...) {
    fault = std::current_exception();
  }
  processes_.throw_any(fault);
}

void RunOutput::say(const std::string& line) const {
  if (options_.epoch_lines) options_.log.info(line);
}

void RunOutput::fail(const FaultEvent& event) const {
  try {
    if (folder_) folder_->line(processes_.cluster().topology().first_rank(), fault_line(event));
    tell(&Observer::on_fault, event);
  } catch (const std::exception& error) {
    options_.log.warn("the run's fault is not recorded: " + fault_text(error));
  }
}

void RunOutput::log_step(const StepEvent& event) const {
  const std::string line = training_line(event, clock_time());
  if (folder_) folder_->line(event.rank, line);
  if (event.rank != 0) return;
  tell(&Observer::on_log_step, event);
  say(line);
}

}  // namespace millrace::trainer::detail

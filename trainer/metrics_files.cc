#include "trainer/metrics_files.h"

#include <fmt/format.h>

namespace millrace::trainer {

MetricsCsv::MetricsCsv(std::unique_ptr<io::AppendFile> file) : file_(std::move(file)) {
  io::end_torn_line(*file_);
  if (file_->size() == 0) file_->append("event,epoch,global_step,name,value\n");
}

void MetricsCsv::row(std::string_view event, std::int64_t epoch, const std::string& name,
                     double value) {
  rows_ += fmt::format("{},{},{},{},{}\n", event, epoch, global_step_, name, value);
}

void MetricsLog::on_step(const StepEvent& event) {
  if (unlogged_.size() == kMostUnlogged) unlogged_.pop_front();
  unlogged_.push_back(event);
}

void MetricsLog::on_log_step(const StepEvent& event) {
  unlogged_.clear();
  write(to_json(event));
}

void MetricsLog::on_epoch_end(const EpochEvent& event) {
  unlogged_.clear();
  write(to_json(event));
}

void MetricsLog::on_saved(const SavedEvent& event) { write(to_json(event)); }

void MetricsLog::on_fault(const FaultEvent& event) {
  for (const StepEvent& step : unlogged_) write(to_json(step));
  write(to_json(event));
}

void MetricsCsv::flush() {
  file_->append(rows_);
  rows_.clear();
}

void MetricsCsv::on_log_step(const StepEvent& event) {
  row("step", event.epoch, "loss", event.loss);
  row("step", event.epoch, "mean_loss", event.mean_loss);
  row("step", event.epoch, "lr", event.lr);
  row("step", event.epoch, "rate", event.recent_rate);
  flush();
}

void MetricsCsv::on_epoch_end(const EpochEvent& event) {
  global_step_ = event.global_step;  // a resumed run may evaluate without a step
  for (const auto& [name, value] : event.train) row("epoch", event.epoch, "train_" + name, value);
  for (const auto& [name, value] : event.val) row("epoch", event.epoch, "val_" + name, value);
  row("epoch", event.epoch, "skipped", static_cast<double>(event.skipped_samples));
  if (event.skipped_steps > 0)
    row("epoch", event.epoch, "skipped_steps", static_cast<double>(event.skipped_steps));
  if (!event.val.empty()) row("epoch", event.epoch, "val_seconds", event.val_seconds);
  row("epoch", event.epoch, "seconds", event.seconds);
  row("epoch", event.epoch, "rate", event.rate);
  row("epoch", event.epoch, "wait_share", event.stall.wait_share);
  flush();
}

}  // namespace millrace::trainer

#include "trainer/log_lines.h"

#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <string_view>

#include "trainer/monitor.h"

namespace millrace::trainer {
namespace {

constexpr std::string_view kClassIou = "iou/";

std::string measured(std::string_view measure, double value) {
  if (std::isnan(value)) return "nan";  // whatever its sign
  return is_share(measure) ? fmt::format("{:.2f}%", 100.0 * value) : fmt::format("{:.5f}", value);
}

std::string value_text(const std::string& name, double value) {
  return name + "=" + measured(name, value);
}

std::string step_text(const StepTimes& step) {
  std::string text;
  for (const StepTimes::Part& part : StepTimes::parts())
    if (step.has(part))
      text +=
          fmt::format("{}{} {:.1f}", text.empty() ? "" : " + ", part.shown, 1e3 * step.*part.value);
  return fmt::format("step {:.1f} ms = {}", 1e3 * step.total(), text);
}

std::string accuracy_text(const char* whose, const NamedValues& values) {
  const auto top1 = find_value(values, "top1");
  return top1 ? fmt::format(", {} Accuracy={}", whose, measured("top1", *top1)) : std::string();
}

/// "val_top1" is the accuracy; another measure has its own name.
std::string best_text(const EndEvent& event) {
  if (!event.best) return {};
  const std::string name = event.monitor == "val_top1" ? "Max Accuracy" : "Best " + event.monitor;
  return fmt::format(", {}={} at Epoch={}", name, measured(event.monitor, *event.best),
                     event.best_epoch);
}

std::string how_it_ended(const EndEvent& event) {
  if (event.interrupted) return "Interrupted";
  return event.stopped_by.empty() ? "Done" : "Stopped by --" + event.stopped_by;
}

}  // namespace

std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string training_line(const StepEvent& event, const std::string& time) {
  const std::string all =
      event.world == 1 ? "" : fmt::format(" Reduced GlobalRate={:.2f}", event.total_rate);
  return fmt::format(
      "Training Device={}/{} Epoch={} Step={} Loss={:.5f} Rate={:.2f} GlobalRate={:.2f} Time={} "
      "MeanLoss={:.5f}{}",
      event.device, event.rank, event.epoch, event.step, event.loss, event.rate, event.global_rate,
      time, event.mean_loss, all);
}

std::string epoch_begin_line(std::int64_t epoch, const std::string& time) {
  return fmt::format("Epoch {} train begin {}", epoch, time);
}

std::string epoch_end_line(const EpochEvent& event, const std::string& time) {
  std::string line = fmt::format(
      "Epoch {} train end {}, Epoch Time={}, Replica Train Samples={}, Reduced GlobalRate={:.2f}",
      event.epoch, time, duration_text(event.train_seconds), event.replica_train_samples,
      event.rate);
  for (const auto& [name, value] : event.train) {
    if (!is_class_iou(name)) line += ", Train " + value_text(name, value);
  }
  if (event.skipped_steps > 0) line += fmt::format(", Skipped Steps={}", event.skipped_steps);
  if (event.skipped_samples > 0) line += fmt::format(", Skipped={}", event.skipped_samples);
  if (event.refetched > 0) line += fmt::format(", Refetched={}", event.refetched);
  if (event.from_step > 1) line += fmt::format(", From Step={}", event.from_step);
  return line;
}

std::string evaluation_line(const EpochEvent& event, const std::string& time) {
  std::string line = fmt::format("Epoch {} test end {}", event.epoch, time);
  line += accuracy_text("Reduced", event.val) + accuracy_text("Replica", event.replica_val);
  for (const auto& [name, value] : event.val) {
    if (name != "top1" && !is_class_iou(name)) line += ", " + value_text(name, value);
  }
  line +=
      fmt::format(", Test Samples={}, Test Time={:.1f} s", event.val_samples, event.val_seconds);
  if (event.val_skipped_samples > 0) line += fmt::format(", Skipped={}", event.val_skipped_samples);
  const std::string classes = class_iou_text(event.val);
  return classes.empty() ? line : line + fmt::format("\nEpoch {} {}", event.epoch, classes);
}

bool is_class_iou(std::string_view name) { return name.starts_with(kClassIou); }

std::string class_iou_text(const NamedValues& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    if (is_class_iou(name))
      text += fmt::format("{}{}={}", text.empty() ? "IoU by class: " : ", ",
                          name.substr(kClassIou.size()), measured(name, value));
  }
  return text;
}

std::string stall_line(const EpochEvent& event) {
  const StallReport& stall = event.stall;
  const std::string begin = fmt::format("Epoch {} {}: ", event.epoch, stall.verdict);
  if (stall.steps == 0) return begin + "first " + step_text(stall.first_step);
  return begin + step_text(stall.mean_step) +
         fmt::format("; without waiting for batches {:.1f} ms; first step {:.1f} ms",
                     1e3 * stall.free_input_step, 1e3 * stall.first_step.total());
}

std::string end_line(const EndEvent& event) {
  return fmt::format("{} after {} epochs, Total Time={}, Average GlobalRate={:.2f}{}{}{}",
                     how_it_ended(event), event.epochs, duration_text(event.seconds),
                     event.mean_rate, best_text(event), event.verdict.empty() ? "" : ", ",
                     event.verdict);
}

std::string fault_line(const FaultEvent& event) {
  return fmt::format("Failed in epoch {}, after step {}: {}", event.epoch, event.global_step,
                     event.message);
}

}  // namespace millrace::trainer

#include "tools/report/parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/report/html.h"
#include "trainer/monitor.h"

namespace millrace::tools {

const RecordJson& member(const RecordJson& json, const char* name) {
  static const RecordJson kNone;
  if (!json.is_object()) return kNone;
  const auto found = json.find(name);
  return found == json.end() ? kNone : *found;
}

std::string json_value_text(const RecordJson& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, RecordJson::error_handler_t::replace);
}

std::vector<std::size_t> some_places(std::size_t all, std::size_t most) {
  std::vector<std::size_t> places;
  const std::size_t count = std::min(all, most);
  for (std::size_t i = 0; i < count; ++i)
    places.push_back(count == 1 ? all - 1 : i * (all - 1) / (count - 1));
  return places;
}

std::vector<const RunEvent*> some_of(const std::vector<RunEvent>& all, std::size_t most) {
  std::vector<const RunEvent*> some;
  for (const std::size_t place : some_places(all.size(), most)) some.push_back(&all[place]);
  return some;
}

std::string left_out_text(std::size_t all, std::size_t most) {
  if (all <= most) return {};
  return fmt::format("<p class=\"soft\">These are {} of {} epochs, evenly.</p>\n", most, all);
}

std::string epoch_name(const RunEvent& epoch) {
  const std::string name =
      fmt::format("epoch {:.0f}", number_in(epoch.values, "epoch").value_or(0));
  const double from = number_in(epoch.values, "from_step").value_or(1);
  return from > 1 ? fmt::format("{}, from step {:.0f}", name, from) : name;
}

double train_seconds(const RunRecord& run) {
  double sum = 0;
  for (const RunEvent& epoch : run.epochs)
    sum += number_in(epoch.values, "train_seconds").value_or(0);
  return sum;
}

std::string (*measure_format(const std::string& measure))(double) {
  return trainer::is_share(measure) ? html::percent : html::number;
}

std::optional<std::pair<double, double>> best_of(const RunRecord& run, const std::string& measure) {
  const bool is_lower = trainer::less_is_better(measure);
  std::optional<std::pair<double, double>> best;
  for (const RunEvent& epoch : run.epochs) {
    const auto value = number_in(epoch.values, measure);
    if (value && (!best || (is_lower ? *value < best->first : *value > best->first)))
      best = {*value, number_in(epoch.values, "epoch").value_or(0)};
  }
  return best;
}

std::string monitor_of(const RunRecord& run) {
  std::string monitor = text_in(run.end, "monitor");
  if (monitor.empty()) monitor = text_in(member(run.config, "options"), "monitor");
  if (!monitor.empty()) return monitor;
  monitor =
      trainer::default_monitor([&](const std::string& name) { return run.last(name).has_value(); });
  return run.last(monitor) ? monitor : "";
}

std::optional<std::pair<double, double>> best_epoch_of(const RunRecord& run) {
  const std::string monitor = monitor_of(run);
  if (const auto best = number_in(run.end, "best"))
    return std::pair(*best, number_in(run.end, "best_epoch").value_or(0));
  for (auto epoch = run.epochs.rbegin(); epoch != run.epochs.rend(); ++epoch)
    if (const auto value = number_in(epoch->values, monitor);
        value && member(epoch->values, "is_best") == true)
      return std::pair(*value, number_in(epoch->values, "epoch").value_or(0));
  return best_of(run, monitor);
}

// The first step of a session's epoch is none of "steps", which are those that it is timed by.
SkippedSteps skipped_steps(const RecordJson& epoch) {
  return {.skipped = number_in(epoch, "skipped_steps").value_or(0),
          .samples = number_in(epoch, "skipped_step_samples").value_or(0),
          .steps = number_in(epoch, "steps").value_or(0) + 1};
}

SkippedSteps skipped_steps(const RunRecord& run) {
  SkippedSteps all;
  for (const RunEvent& epoch : run.epochs) {
    const SkippedSteps own = skipped_steps(epoch.values);
    all.skipped += own.skipped;
    all.samples += own.samples;
    all.steps += own.steps;
  }
  return all;
}

std::string run_state(const RunRecord& run) {
  if (!run.fault.is_null()) return "<span class=\"state bad\">failed</span>";
  if (run.end.is_null()) return "<span class=\"state\">not ended, or still running</span>";
  const std::string by = text_in(run.end, "stopped_by");
  const SkippedSteps steps = skipped_steps(run);
  if (by.empty() && steps.skipped == 0) return "<span class=\"state good\">all epochs done</span>";
  if (by.empty())
    return fmt::format(
        "<span class=\"state{}\">all epochs done, {:.0f} of {:.0f} steps skipped</span>",
        2 * steps.skipped > steps.steps ? " bad" : "", steps.skipped, steps.steps);
  return fmt::format("<span class=\"state\">stopped by {}</span>", html::escaped(by));
}

std::string run_time_text(const RunRecord& run) {
  const std::string time = (run.took_longer ? "at least " : "") + html::duration(run.seconds);
  return run.sessions > 1 ? fmt::format("{} in {} sessions", time, run.sessions) : time;
}

std::string devices_text(const RecordJson& start) {
  const auto processes = number_in(start, "processes");
  const auto devices = number_in(start, "devices");
  if (!devices) return "–";
  return processes.value_or(1) > 1 ? fmt::format("{:.0f} processes × {:.0f}", *processes, *devices)
                                   : fmt::format("{:.0f}", *devices);
}

}  // namespace millrace::tools

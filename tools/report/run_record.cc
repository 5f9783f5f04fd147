#include "tools/report/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/text.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxMetricsBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxJsonBytes = std::size_t{16} << 20;
constexpr double kMostDrawn = 1e100;
constexpr double kMostSteps = 1e15;
constexpr JsonLimits kLineLimits{.bytes = std::size_t{1} << 20, .depth = 12};

std::string last_name(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

/// A run that was resumed has counted again what came after its checkpoint.
void append_joined(std::vector<RunEvent>& events, RunEvent event) {
  while (!events.empty() && events.back().step >= event.step) events.pop_back();
  events.push_back(std::move(event));
}

double step_of(const RecordJson& json, double otherwise) {
  return std::clamp(number_in(json, "global_step").value_or(otherwise), 0.0, kMostSteps);
}

/// Takes a run's events, in their order.
class EventReader {
 public:
  explicit EventReader(RunRecord& run) : run_(run) {}

  void take(RecordJson json) {
    const std::string kind = text_in(json, "event");
    if (kind == "step" && number_in(json, "rank").value_or(0) == 0) take_step(std::move(json));
    if (kind == "epoch") take_epoch(std::move(json));
    if (kind == "saved") take_saved(json);
    if (kind == "end" || kind == "fault") {
      if (!has_ended_) end_session(number_in(json, "seconds").value_or(0));
      (kind == "end" ? run_.end : run_.fault) = std::move(json);
    }
  }
  void finish() {
    if (!has_ended_) end_session(0);
  }

 private:
  double last_step() const { return run_.steps.empty() ? 0 : run_.steps.back().step; }

  void take_step(RecordJson json) {
    go_on();
    const double step = step_of(json, last_step() + 1);
    append_joined(run_.steps, {.step = step, .values = std::move(json)});
  }

  void take_epoch(RecordJson json) {
    go_on();
    const double epoch = number_in(json, "epoch").value_or(0);
    std::erase_if(run_.epochs, [&](const RunEvent& known) {
      return number_in(known.values, "epoch").value_or(0) >= epoch;
    });
    epoch_seconds_ += std::max(0.0, number_in(json, "seconds").value_or(0));
    const double step = step_of(json, std::max(last_step(), epoch));
    run_.epochs.push_back({.step = step, .values = std::move(json)});
  }

  /// Follows its epoch.
  void take_saved(const RecordJson& json) {
    if (run_.epochs.empty()) return;
    RecordJson& epoch = run_.epochs.back().values;
    if (number_in(epoch, "epoch") != number_in(json, "epoch")) return;
    const double seconds = std::max(0.0, number_in(json, "seconds").value_or(0));
    epoch["save_seconds"] = seconds;
    epoch["seconds"] = number_in(epoch, "seconds").value_or(0) + seconds;
    epoch_seconds_ += seconds;
  }

  /// A run that ended before has gone on.
  void go_on() {
    if (!has_ended_) return;
    has_ended_ = false;
    ++run_.sessions;
    run_.end = nullptr;
    run_.fault = nullptr;
  }

  void end_session(double seconds) {
    run_.seconds += std::max(epoch_seconds_, seconds);
    epoch_seconds_ = 0;
    has_ended_ = true;
  }

  RunRecord& run_;
  double epoch_seconds_ = 0;  ///< of the session
  bool has_ended_ = false;
};

void read_metrics(std::string_view text, RunRecord& run) {
  std::size_t bad = 0;
  EventReader reader(run);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    try {
      auto json = parse_json<RecordJson>(line, "metrics.jsonl", kLineLimits);
      if (json.is_object()) reader.take(std::move(json));
    } catch (const Error&) {
      ++bad;
    }
  }
  reader.finish();
  if (bad > 0) run.notes.push_back(counted(bad, "line") + " of metrics.jsonl could not be read");
}

/// The folder's own name, of "." and "runs/.." too.
std::string folder_name(const std::string& path) {
  const std::string name = last_name(io::printable_url(path));
  if (io::is_network_url(path) || (name != "." && name != "..")) return name;
  std::error_code unknown;
  const auto whole = std::filesystem::weakly_canonical(path, unknown);
  return unknown || whole.filename().empty() ? name : whole.filename().string();
}

RecordJson read_json(const io::Opener& opener, const std::string& path, RunRecord& run) {
  const std::string name = last_name(path);
  try {
    const io::Bytes bytes = io::read_object(opener, path, kMaxJsonBytes);
    auto json = parse_json<RecordJson>(bytes.text(), name);
    if (json.is_object()) return json;
    run.notes.push_back(name + " is not an object");
  } catch (const Error& error) {
    run.notes.push_back(cannot_be_seen(error) ? "there is no " + name
                                              : name + " could not be read: " + error.message());
  }
  return nullptr;
}

/// Of a file that a run need not have.
RecordJson read_if_there(const io::Opener& opener, const std::string& path, RunRecord& run) {
  const std::size_t notes = run.notes.size();
  RecordJson json = read_json(opener, path, run);
  const bool is_missing =
      json.is_null() && run.notes.size() > notes && run.notes.back().starts_with("there is no ");
  if (is_missing) run.notes.pop_back();
  return json;
}

}  // namespace

std::optional<double> number_in(const RecordJson& json, const std::string& name) {
  if (!json.is_object()) return {};
  const auto found = json.find(name);
  if (found == json.end() || !found->is_number()) return {};
  const auto value = found->get<double>();
  return std::abs(value) <= kMostDrawn ? std::optional(value) : std::nullopt;
}

std::string text_in(const RecordJson& json, const std::string& name) {
  if (!json.is_object()) return {};
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Earlier versions kept the times alone.
RecordJson sessions_of(const RecordJson& start) {
  const auto list = [&](const char* name) {
    const auto found = start.is_object() ? start.find(name) : start.end();
    return start.is_object() && found != start.end() && found->is_array() ? *found
                                                                          : RecordJson::array();
  };
  auto sessions = RecordJson::array();
  for (const RecordJson& one : list("sessions"))
    if (one.is_object()) sessions.push_back(one);
  if (!sessions.empty() || text_in(start, "started").empty()) return sessions;
  sessions.push_back({{"started", text_in(start, "started")}});
  for (const RecordJson& one : list("resumed")) sessions.push_back({{"started", one}});
  return sessions;
}

std::optional<double> RunRecord::last(const std::string& value) const {
  return epochs.empty() ? std::nullopt : number_in(epochs.back().values, value);
}

RunRecord read_run(const io::Opener& opener, const std::string& path) {
  RunRecord run{.name = folder_name(path)};
  const io::Bytes metrics = io::read_object(opener, path + "/metrics.jsonl", kMaxMetricsBytes);
  read_metrics(metrics.text(), run);
  run.config = read_json(opener, path + "/config.json", run);
  run.start = read_json(opener, path + "/run.json", run);
  const auto told = static_cast<int>(sessions_of(run.start).size());
  run.took_longer = told > run.sessions;
  run.sessions = std::max(run.sessions, told);
  run.evaluation = read_if_there(opener, path + "/evaluation-best.json", run);
  if (run.evaluation.is_null())
    run.evaluation = read_if_there(opener, path + "/evaluation.json", run);
  run.first_batch = read_if_there(opener, path + "/first-batch.json", run);
  return run;
}

}  // namespace millrace::tools

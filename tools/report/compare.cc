#include "tools/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "io/base/text.h"
#include "io/component/component_text.h"
#include "tools/report/chart.h"
#include "tools/report/html.h"
#include "tools/report/page.h"
#include "tools/report/parts.h"
#include "trainer/monitor.h"

namespace millrace::tools {
namespace {

using html::escaped;
using html::or_dash;
using Cells = std::vector<std::string>;
using Group = std::vector<const RunRecord*>;

std::string task_of(const RunRecord& run) { return text_in(member(run.config, "task"), "name"); }

/// "classify by val_top1".
std::string group_kind(const RunRecord& run) {
  const std::string monitor = monitor_of(run);
  const std::string task = task_of(run).empty() ? "unknown task" : task_of(run);
  return monitor.empty() ? task : task + " by " + monitor;
}

/// Runs that were not evaluated are beside the first ones of their task.
std::vector<Group> groups_of(const std::vector<RunRecord>& runs) {
  std::vector<Group> groups;
  const auto belongs = [](const RunRecord& run, const Group& group) {
    const RunRecord& first = *group.front();
    return task_of(run) == task_of(first) &&
           (monitor_of(run) == monitor_of(first) || monitor_of(run).empty());
  };
  const auto add = [&](const RunRecord& run) {
    const auto known =
        std::ranges::find_if(groups, [&](const Group& group) { return belongs(run, group); });
    known == groups.end() ? groups.push_back({&run}) : known->push_back(&run);
  };
  for (const bool is_measured : {true, false})
    for (const RunRecord& run : runs)
      if (monitor_of(run).empty() != is_measured) add(run);
  return groups;
}

std::string why_apart(const std::vector<Group>& groups) {
  if (groups.size() < 2) return {};
  std::string kinds;
  for (const Group& group : groups)
    kinds += (kinds.empty() ? "" : ", ") + group_kind(*group.front());
  return fmt::format(
      "<p>The runs are of different tasks or measures, whose values do not compare: they stand "
      "apart ({}).</p>\n",
      escaped(kinds));
}

/// What a run was evaluated on, as far as it is known.
std::string evaluated_on(const RunRecord& run) {
  const RecordJson& set = member(member(run.start, "data"), "val");
  const RecordJson& shards = member(set, "shards");
  if (!shards.is_array()) return member(set, "specs").dump();
  std::string text = member(set, "epoch_samples").dump();
  for (const RecordJson& shard : shards)
    text +=
        "\n" + text_in(shard, "name") + " " + text_in(shard, "sha256") + text_in(shard, "checksum");
  return text;
}

std::string different_sets(const Group& group) {
  std::set<std::string> sets;
  for (const RunRecord* run : group)
    if (run->last("val_loss")) sets.insert(evaluated_on(*run));
  return sets.size() < 2 ? ""
                         : "<p>These runs were not evaluated on the same samples: compare their "
                           "measures with care.</p>\n";
}

// ---- the runs

/// A run's value of one quantity.
struct Value {
  std::optional<double> number;
  std::string text = "–";  ///< HTML
};

enum class Better { kNone, kLower, kHigher };

struct RunColumn {
  std::string title;
  Value (*of)(const RunRecord& run);
  Better better = Better::kNone;
};

Value best_value(const RunRecord& run) {
  const std::string monitor = monitor_of(run);
  const auto best = best_epoch_of(run);
  if (!best) return {};
  return {best->first, fmt::format("{} <span class=\"soft\">(epoch {:.0f})</span>",
                                   measure_format(monitor)(best->first), best->second)};
}

Value last_of(const RunRecord& run, const std::string& name, std::string (*text)(double)) {
  const auto value = run.last(name);
  return {value, or_dash(value, text)};
}

Value last_measure(const RunRecord& run) {
  const std::string monitor = monitor_of(run);
  return last_of(run, monitor, measure_format(monitor));
}

/// "3 of 10".
std::string epochs_text(const RunRecord& run) {
  const auto wanted = number_in(member(run.config, "options"), "epochs");
  const auto done = static_cast<double>(run.epochs.size());
  return wanted && *wanted != done ? fmt::format("{:.0f} of {:.0f}", done, *wanted)
                                   : fmt::format("{:.0f}", done);
}

std::string skipped_text(const RunRecord& run) {
  double skipped = 0;
  for (const RunEvent& epoch : run.epochs)
    skipped += number_in(epoch.values, "skipped").value_or(0) +
               number_in(epoch.values, "val_skipped").value_or(0);
  const double steps = skipped_steps(run).skipped;
  const std::string text = skipped > 0 ? fmt::format("{:.0f} skipped", skipped) : "";
  if (steps == 0) return text.empty() ? "none" : text;
  return fmt::format("{}{}{:.0f} steps skipped", text, text.empty() ? "" : ", ", steps);
}

std::vector<RunColumn> run_columns(const std::string& monitor) {
  const Better better = trainer::less_is_better(monitor) ? Better::kLower : Better::kHigher;
  std::vector<RunColumn> columns;
  if (!monitor.empty()) {
    columns.push_back({"best " + monitor, best_value, better});
    columns.push_back({"last " + monitor, last_measure, better});
  }
  if (monitor != "val_loss")
    columns.push_back({"last val_loss",
                       [](const RunRecord& run) { return last_of(run, "val_loss", html::number); },
                       Better::kLower});
  columns.push_back({"last train_loss", [](const RunRecord& run) {
                       return last_of(run, "train_loss", html::number);
                     }});
  columns.push_back({"epochs", [](const RunRecord& run) { return Value{{}, epochs_text(run)}; }});
  columns.push_back({"samples/s",
                     [](const RunRecord& run) { return last_of(run, "rate", html::number); },
                     Better::kHigher});
  columns.push_back({"time", [](const RunRecord& run) {
                       return Value{{}, escaped(run_time_text(run))};
                     }});
  columns.push_back({"devices", [](const RunRecord& run) {
                       return Value{{}, devices_text(run.start)};
                     }});
  columns.push_back(
      {"waiting", [](const RunRecord& run) { return last_of(run, "wait_share", html::percent); }});
  columns.push_back({"faults", [](const RunRecord& run) { return Value{{}, skipped_text(run)}; }});
  return columns;
}

/// The best of several that are not all the same.
std::optional<double> best_in(const std::vector<Value>& values, Better better) {
  std::vector<double> numbers;
  for (const Value& value : values)
    if (value.number) numbers.push_back(*value.number);
  if (numbers.size() < 2 || better == Better::kNone) return {};
  const auto [least, most] = std::ranges::minmax(numbers);
  if (least == most) return {};
  return better == Better::kLower ? least : most;
}

std::string run_name(const RunRecord& run, const std::vector<RunRecord>& runs) {
  return swatch(static_cast<int>(&run - runs.data())) + escaped(run.name);
}

std::string group_table(const Group& group, const std::vector<RunRecord>& runs) {
  std::vector<html::Column> titles = {{"run"}, {"state"}};
  std::vector<Cells> rows;
  for (const RunRecord* run : group) rows.push_back({run_name(*run, runs), run_state(*run)});
  for (const RunColumn& column : run_columns(monitor_of(*group.front()))) {
    titles.push_back({column.title, true});
    std::vector<Value> values;
    for (const RunRecord* run : group) values.push_back(column.of(*run));
    const auto best = best_in(values, column.better);
    for (std::size_t i = 0; i < group.size(); ++i)
      rows[i].push_back(best && values[i].number == best
                            ? "<span class=\"best\">" + values[i].text + "</span>"
                            : values[i].text);
  }
  titles.push_back({"limited by"});
  for (std::size_t i = 0; i < group.size(); ++i) {
    const std::string limit = advice_of(*group[i]).limit;
    rows[i].push_back(limit.empty() ? "–" : escaped(limit));
  }
  return html::table(titles, rows);
}

/// Why runs have failed, and what to do about what limits the others.
std::string remarks(const std::vector<RunRecord>& runs) {
  std::string text;
  for (const RunRecord& run : runs) {
    const Advice advice = advice_of(run);
    const std::string fault = text_in(run.fault, "message");
    if (fault.empty() && advice.verdict.empty()) continue;
    const bool says_failed = fault.find("failed: ") != std::string::npos;  // "process 1 failed: "
    text += fmt::format("<p>{}: {}</p>\n", "<b>" + run_name(run, runs) + "</b>",
                        escaped(fault.empty() ? advice.verdict + " " + advice.what_to_do
                                              : (says_failed ? "" : "failed: ") + fault));
  }
  return text;
}

// ---- epochs

constexpr std::size_t kMostEpochRows = 60;

std::string epochs_of_one(const RunRecord& run) {
  std::vector<html::Column> titles = {{"epoch"}};
  std::vector<std::pair<std::string, std::string (*)(double)>> values;
  const auto add = [&](const std::string& name, std::string (*text)(double)) {
    const bool is_known = std::ranges::any_of(run.epochs, [&](const RunEvent& epoch) {
      return number_in(epoch.values, name).has_value();
    });
    if (!is_known) return;
    titles.push_back({name, true});
    values.emplace_back(name, text);
  };
  std::vector<std::string> names = measures_of({run});
  names.insert(names.begin(), "loss");
  for (const std::string& name : names)
    for (const std::string set : {"train_", "val_"}) add(set + name, measure_format(name));
  add("rate", html::number);
  add("seconds", html::duration);
  std::vector<Cells> rows;
  const auto best = best_epoch_of(run);
  for (const RunEvent* epoch : some_of(run.epochs, kMostEpochRows)) {
    const bool is_best = best && number_in(epoch->values, "epoch") == best->second;
    rows.push_back({escaped(epoch_name(*epoch)) + (is_best ? " (best)" : "")});
    for (const auto& [name, text] : values)
      rows.back().push_back(or_dash(number_in(epoch->values, name), text));
  }
  return html::table(titles, rows) + left_out_text(run.epochs.size(), kMostEpochRows);
}

using ByEpoch = std::map<double, std::optional<double>>;

ByEpoch by_epoch(const RunRecord& run, const std::string& name) {
  ByEpoch values;
  for (const RunEvent& epoch : run.epochs)
    values[number_in(epoch.values, "epoch").value_or(0)] = number_in(epoch.values, name);
  return values;
}

/// Rows are epochs, columns runs.
std::string epochs_beside(const Group& group, const std::string& name) {
  std::vector<html::Column> titles = {{"epoch"}};
  std::vector<ByEpoch> values;
  std::set<double> all;
  for (const RunRecord* run : group) {
    titles.push_back({run->name, true});
    values.push_back(by_epoch(*run, name));
    for (const auto& [epoch, value] : values.back())
      if (value) all.insert(epoch);
  }
  const std::vector<double> epochs(all.begin(), all.end());
  if (epochs.empty()) return {};
  std::vector<Cells> rows;
  for (const std::size_t place : some_places(epochs.size(), kMostEpochRows)) {
    const double epoch = epochs[place];
    rows.push_back({fmt::format("epoch {:.0f}", epoch)});
    for (const ByEpoch& run : values) {
      const auto at = run.find(epoch);
      const auto value = at == run.end() ? std::nullopt : at->second;
      rows.back().push_back(value ? measure_format(name)(*value) : "–");
    }
  }
  return fmt::format("<h3>{}</h3>\n", escaped(name)) + html::table(titles, rows) +
         left_out_text(epochs.size(), kMostEpochRows);
}

// ---- options

using Settings = std::map<std::string, std::string>;

/// A component by its name and parameters; nullopt: it is no component with named ones.
std::optional<std::pair<std::string, Settings>> component_of(const std::string& shown) {
  try {
    const Written calls = written_calls(shown);
    if (calls.items.size() != 1 || calls.items.front().kind != Written::Kind::kCall) return {};
    std::pair<std::string, Settings> component{calls.items.front().text, {}};
    for (const Written& argument : calls.items.front().items) {
      if (argument.name.empty()) return {};
      component.second[argument.name] = text(argument);
    }
    return component;
  } catch (const Mistake&) {
    return {};
  }
}

Settings run_settings(const RunRecord& run) {
  static const std::set<std::string> kPlaces = {"run-dir", "force", "resume"};
  Settings settings;
  const RecordJson& options = member(run.config, "options");
  if (options.is_object())
    for (const auto& [name, value] : options.items())
      if (!kPlaces.contains(name)) settings[name] = json_value_text(value);
  const RecordJson& machine = member(run.start, "machine");
  if (const std::string host = text_in(machine, "host"); !host.empty()) settings["host"] = host;
  if (const auto parameters = number_in(member(run.start, "model"), "parameters"))
    settings["parameters of the model"] = html::number(*parameters);
  const RecordJson& versions = member(run.start, "versions");
  if (versions.is_object())
    for (const auto& [name, value] : versions.items())
      settings[(name == "machine" ? "" : "version of ") + name] = json_value_text(value);
  if (const auto processes = number_in(run.start, "processes"))
    settings["processes"] = fmt::format("{:.0f}", *processes);
  return settings;
}

/// Each run's value of what is called `name`; "–": it has none.
Cells setting_values(const std::vector<Settings>& runs, const std::string& name) {
  Cells values;
  for (const Settings& run : runs) {
    const auto found = run.find(name);
    values.push_back(found == run.end() ? "–" : found->second);
  }
  return values;
}

bool differ(const Cells& values) {
  return std::ranges::any_of(values, [&](const std::string& one) { return one != values.front(); });
}

std::set<std::string> setting_names(const std::vector<Settings>& runs) {
  std::set<std::string> names;
  for (const Settings& run : runs)
    for (const auto& [name, value] : run) names.insert(name);
  return names;
}

/// The same component's settings in all runs; empty: they have different ones.
std::vector<Settings> same_component(const Cells& values) {
  std::vector<Settings> all;
  std::string name;
  for (const std::string& value : values) {
    auto component = component_of(value);
    if (!component || (!all.empty() && component->first != name)) return {};
    name = component->first;
    all.push_back(std::move(component->second));
  }
  return all;
}

void add_row(const std::string& name, const Cells& values, std::vector<Cells>& rows) {
  if (!differ(values)) return;
  Cells row = {"<code>" + escaped(name) + "</code>"};
  for (const std::string& value : values) row.push_back(escaped(value));
  rows.push_back(std::move(row));
}

}  // namespace

std::string comparison(const std::vector<RunRecord>& runs) {
  const std::vector<Group> groups = groups_of(runs);
  std::string text = why_apart(groups);
  for (const Group& group : groups) {
    if (groups.size() > 1)
      text += fmt::format("<h3>{}</h3>\n", escaped(group_kind(*group.front())));
    text += different_sets(group) + group_table(group, runs);
  }
  return text + remarks(runs);
}

std::string epoch_tables(const std::vector<RunRecord>& runs) {
  if (runs.size() == 1) return runs.front().epochs.empty() ? "" : epochs_of_one(runs.front());
  std::string text;
  for (const Group& group : groups_of(runs)) {
    const std::string monitor = monitor_of(*group.front());
    std::vector<std::string> names = {"val_loss", "train_loss"};
    if (!monitor.empty() && monitor != "val_loss") names.insert(names.begin(), monitor);
    for (const std::string& name : names) text += epochs_beside(group, name);
  }
  return text;
}

std::string option_differences(const std::vector<RunRecord>& runs) {
  std::vector<Settings> settings;
  std::vector<html::Column> titles = {{"option"}};
  for (const RunRecord& run : runs) {
    settings.push_back(run_settings(run));
    titles.push_back({run.name});
  }
  std::vector<Cells> rows;
  for (const std::string& name : setting_names(settings)) {
    const Cells values = setting_values(settings, name);
    const std::vector<Settings> parameters = same_component(values);
    if (parameters.empty()) add_row(name, values, rows);
    for (const std::string& parameter : setting_names(parameters))
      add_row(name + "." + parameter, setting_values(parameters, parameter), rows);
  }
  return rows.empty() ? "<p>The runs have the same options, but for their folders.</p>\n"
                      : html::table(titles, rows);
}

}  // namespace millrace::tools

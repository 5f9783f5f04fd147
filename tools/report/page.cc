#include "tools/report/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <set>

#include "io/base/text.h"
#include "tools/report/chart.h"
#include "tools/report/html.h"
#include "tools/report/parts.h"
#include "tools/report/style.h"

namespace millrace::tools {
namespace {

using html::escaped;
using html::section;
using html::tile;
using Points = std::vector<std::pair<double, double>>;

std::string pairs(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string text = "<dl class=\"pairs\">";
  for (const auto& [name, value] : rows)
    text += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value));
  return text + "</dl>\n";
}

std::vector<std::pair<std::string, std::string>> pairs_of(const RecordJson& object) {
  std::vector<std::pair<std::string, std::string>> rows;
  if (!object.is_object()) return rows;
  for (const auto& [name, value] : object.items()) rows.emplace_back(name, json_value_text(value));
  return rows;
}

// ---- the head

std::string run_state(const RunRecord& run) {
  if (!run.fault.is_null()) return "<span class=\"state bad\">failed</span>";
  if (run.end.is_null()) return "<span class=\"state\">not ended, or still running</span>";
  const std::string by = text_in(run.end, "stopped_by");
  if (by.empty()) return "<span class=\"state good\">all epochs done</span>";
  return fmt::format("<span class=\"state\">stopped by {}</span>", escaped(by));
}

/// Why a run has failed; empty if it has not.
std::string run_failure(const RunRecord& run) {
  if (run.fault.is_null()) return {};
  return fmt::format(
      "<div class=\"verdict\"><p><b>Failed in epoch {:.0f}, after step {:.0f} of the run.</b></p>"
      "<p>{}</p></div>\n",
      number_in(run.fault, "epoch").value_or(0), number_in(run.fault, "global_step").value_or(0),
      escaped(text_in(run.fault, "message")));
}

/// What is a share is said in percent.
bool is_share(const std::string& measure) {
  return measure.find("top") != std::string::npos || measure.find("iou") != std::string::npos ||
         measure.find("acc") != std::string::npos || measure.find("auroc") != std::string::npos;
}
std::string measure_text(const std::string& name, double value) {
  return is_share(name) ? html::percent(value) : html::number(value);
}

/// The least value of an epoch's, and that epoch; nullopt if there is none.
std::optional<std::pair<double, double>> least_of(const RunRecord& run, const std::string& name) {
  std::optional<std::pair<double, double>> least;
  for (const RunEvent& epoch : run.epochs) {
    const auto value = number_in(epoch.values, name);
    if (value && (!least || *value < least->first))
      least = {*value, number_in(epoch.values, "epoch").value_or(0)};
  }
  return least;
}

/// "12.3 s", "12.3 s in 2 sessions".
std::string run_time_text(const RunRecord& run) {
  const std::string time = html::duration(run.seconds);
  return run.sessions > 1 ? fmt::format("{} in {} sessions", time, run.sessions) : time;
}

std::string tiles(const RunRecord& run) {
  std::string all = "<dl class=\"tiles\">";
  const std::string monitor = text_in(run.end, "monitor");
  if (const auto best = number_in(run.end, "best"))
    all += tile("best " + monitor, measure_text(monitor, *best),
                fmt::format("epoch {:.0f}", number_in(run.end, "best_epoch").value_or(0)));
  if (const auto loss = run.last("val_loss")) {
    const auto least = least_of(run, "val_loss");
    all += tile(
        "val loss", html::number(*loss),
        fmt::format("last; best {} in epoch {:.0f}", html::number(least->first), least->second));
  }
  if (const auto loss = run.last("train_loss"))
    all += tile("train loss", html::number(*loss), "mean of the last epoch");
  if (const auto rate = run.last("rate"))
    all += tile("samples/s", html::number(*rate), "all devices, last epoch");
  if (const auto wait = run.last("wait_share"))
    all += tile("waiting for input", html::percent(*wait), "of the devices' time");
  all += tile("epochs", std::to_string(run.epochs.size()), run_time_text(run));
  return all + "</dl>\n";
}

std::string verdict(const RunRecord& run) {
  const Advice advice = advice_of(run);
  if (advice.verdict.empty()) return {};
  return fmt::format("<div class=\"verdict\"><p><b>{}</b></p><p>{}</p></div>\n",
                     escaped(advice.verdict), escaped(advice.what_to_do));
}

/// ", resumed 2026-11-28 12:00:00 UTC": the last time.
std::string resumed_text(const RunRecord& run) {
  const RecordJson& times = member(run.start, "resumed");
  if (!times.is_array() || times.empty()) return {};
  return ", resumed " + json_value_text(times.back());
}

std::string head(const std::vector<RunRecord>& runs, const std::string& navigation) {
  std::string text = "<header>\n";
  if (runs.size() > 1) text += fmt::format("<h1>{} runs</h1>\n", runs.size());
  for (const RunRecord& run : runs) {
    const char* level = runs.size() > 1 ? "h2" : "h1";
    const std::string model = text_in(member(run.config, "options"), "model");
    const std::string began = text_in(run.start, "started");
    text += fmt::format("<{0}>{1}{2}</{0}>\n<p class=\"soft\">{3}</p>\n{4}{5}", level,
                        escaped(run.name), run_state(run),
                        escaped(model + (model.empty() || began.empty() ? "" : ", begun ") + began +
                                resumed_text(run)),
                        tiles(run), run_failure(run) + verdict(run));
  }
  return text + navigation + "</header>\n";
}

// ---- curves

Points points_of(const std::vector<RunEvent>& events, const std::string& name) {
  Points points;
  for (const RunEvent& event : events)
    if (const auto value = number_in(event.values, name)) points.emplace_back(event.step, *value);
  return points;
}

struct NamedCurves {
  const std::vector<RunRecord>& runs;

  /// Alone, a run's curves differ in colour; of several, the runs do.
  std::vector<Curve> operator()(const std::string& of_steps, const std::string& train,
                                const std::string& val) const {
    std::vector<Curve> curves;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const auto colour = [&](int own) { return runs.size() == 1 ? own : static_cast<int>(i); };
      const auto name = [&](const std::string& what) {
        return runs.size() == 1 ? what : runs[i].name + ", " + what;
      };
      if (!of_steps.empty())
        curves.push_back({.name = name("steps"),
                          .points = points_of(runs[i].steps, of_steps),
                          .colour = colour(7),
                          .is_faint = true});
      if (!train.empty())
        curves.push_back({.name = name("train"),
                          .points = points_of(runs[i].epochs, train),
                          .colour = colour(0),
                          .is_faint = runs.size() > 1,
                          .has_dots = true});
      if (!val.empty())
        curves.push_back({.name = name("val"),
                          .points = points_of(runs[i].epochs, val),
                          .colour = colour(1),
                          .has_dots = true});
    }
    return curves;
  }
};

/// Lately, so that a pause within an epoch is seen; of earlier versions since the epoch began.
std::string step_rate_of(const std::vector<RunRecord>& runs) {
  const bool has_recent = std::ranges::all_of(runs, [](const RunRecord& run) {
    return run.steps.empty() || run.steps.back().values.contains("recent_rate");
  });
  return has_recent ? "recent_rate" : "total_rate";
}

/// The measures that any run has, in their order, without those of single classes.
std::vector<std::string> measures_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (name != "loss" && name.find('/') == std::string::npos &&
        std::ranges::find(names, name) == names.end())
      names.push_back(name);
  };
  static const std::set<std::string> kCounts = {"samples", "seconds", "skipped"};
  for (const RunRecord& run : runs)
    for (const RunEvent& epoch : run.epochs)
      for (const auto& [key, value] : epoch.values.items())
        for (const std::string prefix : {"val_", "train_"})
          if (key.starts_with(prefix) && !kCounts.contains(key.substr(prefix.size())))
            add(key.substr(prefix.size()));
  constexpr std::size_t kMost = 12;
  if (names.size() > kMost) names.resize(kMost);
  return names;
}

std::string curves(const std::vector<RunRecord>& runs) {
  const NamedCurves of{runs};
  std::string charts = curves_figure(
      {.title = "Loss", .text = html::number, .curves = of("loss", "train_loss", "val_loss")});
  for (const std::string& name : measures_of(runs))
    charts += curves_figure({.title = name,
                             .text = is_share(name) ? html::percent : html::number,
                             .curves = of("", "train_" + name, "val_" + name)});
  charts += curves_figure({.title = "Samples/s of all devices",
                           .text = html::number,
                           .curves = of(step_rate_of(runs), "rate", ""),
                           .from_zero = true});
  charts += curves_figure({.title = "Learning rate",
                           .text = html::number,
                           .curves = of("lr", "", ""),
                           .from_zero = true});
  charts += curves_figure({.title = "Share of time spent waiting for input",
                           .text = html::percent,
                           .curves = of("", "wait_share", ""),
                           .from_zero = true});
  if (charts.empty()) charts = "<p>There is no step or epoch to draw yet.</p>";
  return section("curves", "Curves over the run's steps",
                 "<div class=\"charts\">\n" + charts + "</div>\n");
}

// ---- the input

/// A stage's numbers, or the queue's, summed over the epochs.
void add_numbers(const RecordJson& json, RecordJson& sum) {
  if (!json.is_object()) return;
  for (const auto& [name, value] : json.items())
    if (const auto number = number_in(json, name)) {
      const bool is_state = name == "threads";
      sum[name] = (is_state ? 0 : number_in(sum, name).value_or(0)) + *number;
    }
}

/// Stages over the whole run: what is read ahead belongs to a later epoch.
std::vector<std::pair<std::string, RecordJson>> stages_of(const RunRecord& run) {
  std::vector<std::pair<std::string, RecordJson>> stages;
  for (const RunEvent& epoch : run.epochs) {
    const RecordJson& own = member(member(epoch.values, "input"), "stages");
    if (!own.is_array()) continue;
    for (const RecordJson& stage : own) {
      const std::string name = text_in(stage, "stage");
      auto known = std::ranges::find(stages, name, &std::pair<std::string, RecordJson>::first);
      constexpr std::size_t kMost = 32;
      if (known == stages.end() && stages.size() == kMost) continue;
      if (known == stages.end()) known = stages.insert(known, {name, RecordJson::object()});
      add_numbers(stage, known->second);
    }
  }
  return stages;
}

std::string stage_table(const RunRecord& run) {
  const auto stages = stages_of(run);
  if (stages.empty()) return "<p>The run did not record its stages.</p>\n";
  const double seconds = std::max(1e-9, train_seconds(run));
  std::vector<Bar> rows;
  std::vector<std::vector<std::string>> cells;
  for (const auto& [name, stage] : stages) {
    const double busy = number_in(stage, "busy").value_or(0);
    const double waiting = number_in(stage, "waiting").value_or(0);
    const double share = busy + waiting > 0 ? std::min(1.0, busy / (busy + waiting)) : 0;
    rows.push_back({.label = name,
                    .parts = {{"busy", share, 1}, {"waiting", 1 - share, -1}},
                    .end = html::percent(share) + " busy"});
    const double samples = number_in(stage, "samples").value_or(0);
    cells.push_back({escaped(name), html::number(samples), html::number(samples / seconds),
                     html::bytes(number_in(stage, "bytes").value_or(0) / seconds) + "/s",
                     html::number(number_in(stage, "threads").value_or(1))});
  }
  return bars(rows, html::percent, true) +
         html::table({{"stage"},
                      {"samples", true},
                      {"samples/s", true},
                      {"bytes/s", true},
                      {"threads", true}},
                     cells) +
         "<p class=\"soft\">Per second of training, all processes together.</p>\n";
}

std::string queue_text(const RunRecord& run) {
  RecordJson sum = RecordJson::object();
  for (const RunEvent& epoch : run.epochs) add_numbers(member(epoch.values, "input"), sum);
  const double requests = number_in(sum, "requests").value_or(0);
  if (requests <= 0) return {};
  const double ready = number_in(sum, "ready").value_or(0);
  return fmt::format(
      "<p>Of {} requests for a batch, {} ({}) found one that had landed already.</p>\n",
      html::number(requests), html::number(ready), html::percent(ready / requests));
}

std::string input_of(const RunRecord& run) { return stage_table(run) + queue_text(run); }

// ---- classes

std::string classes_of_run(const RunRecord& run) {
  std::vector<Bar> rows;
  std::vector<std::vector<std::string>> cells;
  for (const auto& [key, value] : run.epochs.back().values.items()) {
    const std::size_t slash = key.find('/');
    const auto number = number_in(run.epochs.back().values, key);
    if (slash == std::string::npos || !key.starts_with("val_") || !number) continue;
    const std::string name = key.substr(slash + 1) + " (" + key.substr(4, slash - 4) + ")";
    const double share = std::clamp(*number, 0.0, 1.0);
    rows.push_back({.label = name,
                    .parts = {{key, share, 2}, {"missing", 1 - share, -1}},
                    .end = html::percent(*number)});
  }
  return rows.empty() ? std::string() : bars(rows, html::percent, true);
}

// ---- data, machine, options

std::string shards_table(const RecordJson& shards) {
  constexpr std::size_t kMost = 40;
  if (!shards.is_array() || shards.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const RecordJson& shard : shards) {
    if (rows.size() == kMost) break;
    const std::string sha = text_in(shard, "sha256");
    const std::string digest = sha.empty() ? text_in(shard, "checksum") : sha;
    rows.push_back({"<code>" + escaped(text_in(shard, "name")) + "</code>",
                    html::or_dash(number_in(shard, "samples"), html::number),
                    html::or_dash(number_in(shard, "bytes"), html::bytes),
                    digest.empty() ? "–" : "<code>" + escaped(digest) + "</code>",
                    digest.empty() ? ""
                    : sha.empty()  ? "parts of the shard"
                                   : "SHA-256"});
  }
  std::string text =
      html::table({{"shard"}, {"samples", true}, {"bytes", true}, {"digest"}, {"of"}}, rows);
  if (shards.size() > kMost)
    text += fmt::format("<p class=\"soft\">and {} more</p>\n", shards.size() - kMost);
  return text;
}

std::string data_of(const RunRecord& run) {
  std::string text;
  for (const auto& [name, set] : member(run.start, "data").items()) {
    text += fmt::format("<h3>{}</h3>\n<p>", escaped(name));
    if (const RecordJson& specs = member(set, "specs"); specs.is_array())
      for (const RecordJson& spec : specs)
        text += "<code>" + escaped(json_value_text(spec)) + "</code> ";
    text += "</p>\n" + shards_table(member(set, "shards"));
  }
  return text.empty() ? "<p>The run did not record its data.</p>\n" : text;
}

std::string machine_of(const RunRecord& run) {
  auto rows = pairs_of(member(run.start, "machine"));
  std::ranges::copy(pairs_of(member(run.start, "versions")), std::back_inserter(rows));
  return rows.empty() ? "<p>The run did not record its machine.</p>\n" : pairs(rows);
}

std::string options_of(const RunRecord& run) {
  const auto rows = pairs_of(member(run.config, "options"));
  return rows.empty() ? "<p>There is no config.json.</p>\n" : pairs(rows);
}

/// A part of the page that has a link of its own.
struct Part {
  const char* id;
  const char* link;
  const char* title;
  std::string (*of)(const RunRecord&);
  bool needs_epochs = true;
};
constexpr std::array<Part, 7> kParts = {
    {{"time", "Time", "Where the time went", time_of},
     {"input", "Input", "The input's stages over the run", input_of},
     {"ledger", "Samples", "The ledger of samples", ledger_of},
     {"classes", "Classes", "Classes in the last evaluation", classes_of_run},
     {"data", "Data", "Data", data_of, false},
     {"machine", "Machine", "Machine and versions", machine_of, false},
     {"options", "Options", "Options as they were resolved", options_of, false}}};

/// What each run has to say; empty if none has.
std::string part_content(const Part& part, const std::vector<RunRecord>& runs) {
  std::string content;
  for (const RunRecord& run : runs) {
    const std::string own = part.needs_epochs && run.epochs.empty() ? "" : part.of(run);
    if (own.empty()) continue;
    if (runs.size() > 1) content += fmt::format("<h3 class=\"run\">{}</h3>\n", escaped(run.name));
    content += own;
  }
  return content;
}

std::string notes(const std::vector<RunRecord>& runs) {
  std::string text;
  for (const RunRecord& run : runs)
    for (const std::string& note : run.notes)
      text += fmt::format("<p>{}: {}</p>\n", escaped(run.name), escaped(note));
  return text;
}

}  // namespace

std::string report_page(const std::vector<RunRecord>& runs) {
  const std::string title = runs.size() == 1 ? runs.front().name : counted(runs.size(), "run");
  std::string links = "<a href=\"#curves\">Curves</a>";
  std::string sections = curves(runs);
  for (const Part& part : kParts) {
    const std::string content = part_content(part, runs);
    if (content.empty()) continue;
    links += fmt::format("<a href=\"#{}\">{}</a>", part.id, part.link);
    sections += section(part.id, part.title, content);
  }
  const std::string navigation = "<nav aria-label=\"Parts of this page\">" + links + "</nav>\n";
  return html::document(title, kReportStyle,
                        head(runs, navigation) + "<main>\n" + sections + "</main>\n<footer>\n" +
                            notes(runs) +
                            "<p>Drawn by millrace report from the runs' folders.</p>\n</footer>\n");
}

}  // namespace millrace::tools

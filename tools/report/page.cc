#include "tools/report/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>

#include "io/base/text.h"
#include "tools/report/chart.h"
#include "tools/report/compare.h"
#include "tools/report/evaluation.h"
#include "tools/report/html.h"
#include "tools/report/parts.h"

namespace millrace::tools {
namespace {

using html::escaped;
using html::section;
using html::tile;

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

/// Why a run has failed; empty if it has not.
std::string run_failure(const RunRecord& run) {
  if (run.fault.is_null()) return {};
  return fmt::format(
      "<div class=\"verdict\"><p><b>Failed in epoch {:.0f}, after step {:.0f} of the run.</b></p>"
      "<p>{}</p></div>\n",
      number_in(run.fault, "epoch").value_or(0), number_in(run.fault, "global_step").value_or(0),
      escaped(text_in(run.fault, "message")));
}

std::string tiles(const RunRecord& run) {
  std::string all = "<dl class=\"tiles\">";
  const std::string monitor = monitor_of(run);
  if (const auto best = best_epoch_of(run))
    all += tile("best " + monitor, measure_format(monitor)(best->first),
                fmt::format("epoch {:.0f}{}", best->second, run.end.is_null() ? ", so far" : ""));
  if (const auto loss = run.last("val_loss")) {
    const auto least = best_of(run, "val_loss");
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

/// Of a run that has gone on where it would have failed.
std::string skipped_steps_text(const RunRecord& run) {
  const SkippedSteps all = skipped_steps(run);
  if (all.skipped == 0) return {};
  return fmt::format(
      "<div class=\"verdict\"><p><b>{:.0f} of {:.0f} steps were skipped: their loss or gradients "
      "were not finite.</b></p><p>The samples of these steps ({}) have trained nothing. Lower the "
      "learning rate, clip the gradients, or check the data; without --on-non-finite skip such a "
      "step ends the run.</p></div>\n",
      all.skipped, all.steps, html::number(all.samples));
}

std::string verdict(const RunRecord& run) {
  const Advice advice = advice_of(run);
  if (advice.verdict.empty()) return {};
  return fmt::format("<div class=\"verdict\"><p><b>{}</b></p><p>{}</p></div>\n",
                     escaped(advice.verdict), escaped(advice.what_to_do));
}

/// "resnet18(...), 11.2M parameters, begun 2026-11-28 12:00:00 UTC, resumed ...": the last time.
std::string said_of(const RunRecord& run) {
  std::vector<std::string> said;
  if (const std::string model = text_in(member(run.config, "options"), "model"); !model.empty())
    said.push_back(model);
  if (const auto parameters = number_in(member(run.start, "model"), "parameters"))
    said.push_back(html::number(*parameters) + " parameters");
  const RecordJson sessions = sessions_of(run.start);
  if (!sessions.empty()) said.push_back("begun " + text_in(sessions.front(), "started"));
  if (sessions.size() > 1) said.push_back("resumed " + text_in(sessions.back(), "started"));
  return fmt::format("{}", fmt::join(said, ", "));
}

std::string head_of(const RunRecord& run) {
  return fmt::format("<h1>{}{}</h1>\n<p class=\"soft\">{}</p>\n{}{}", escaped(run.name),
                     run_state(run), escaped(said_of(run)), tiles(run),
                     run_failure(run) + skipped_steps_text(run) + verdict(run));
}

std::string head(const std::vector<RunRecord>& runs, const std::string& navigation) {
  const std::string text =
      runs.size() == 1 ? head_of(runs.front()) : fmt::format("<h1>{} runs</h1>\n", runs.size());
  return "<header>\n" + text + navigation + "</header>\n";
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
         "<p class=\"soft\">Per second of training, all processes together." +
         (run.sessions > 1 ? " Samples and seconds are those of the epochs that ended, of one that "
                             "a session has continued those of its rest: an epoch that a session "
                             "was stopped in has neither of before, but for what was read ahead."
                           : "") +
         "</p>\n";
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

/// "1.2 GB", of several processes of each.
std::string memory_text(const RecordJson& session) {
  constexpr std::size_t kMost = 64;
  std::vector<std::string> all;
  const RecordJson& bytes = member(session, "peak_bytes");
  if (bytes.is_array())
    for (const RecordJson& one : bytes)
      if (one.is_number() && all.size() < kMost) all.push_back(html::bytes(one.get<double>()));
  const bool is_partial =
      static_cast<double>(all.size()) < number_in(session, "processes").value_or(1);
  return all.empty() ? "–"
                     : fmt::format("{}{}", fmt::join(all, ", "), is_partial ? " (process 0)" : "");
}

/// The first and the latest ones.
std::string sessions_table(const RunRecord& run) {
  constexpr std::size_t kMost = 20;
  const RecordJson sessions = sessions_of(run.start);
  if (sessions.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const std::size_t place : some_places(sessions.size(), kMost)) {
    const RecordJson& one = sessions[place];
    const std::string command = text_in(one, "command");
    rows.push_back(
        {escaped(text_in(one, "started")), escaped(text_in(one, "host")), devices_text(one),
         memory_text(one),
         command.empty() ? "–" : "<code class=\"command\">" + escaped(command) + "</code>"});
  }
  const std::vector<html::Column> titles = {
      {"begun"}, {"on"}, {"devices", true}, {"most memory", true}, {"command"}};
  return "<h3>Sessions</h3>\n" + html::table(titles, rows) +
         "<p class=\"soft\">Memory is what each process had at most, up to the last epoch that "
         "ended.</p>\n";
}

std::string machine_of(const RunRecord& run) {
  auto rows = pairs_of(member(run.start, "machine"));
  std::ranges::copy(pairs_of(member(run.start, "versions")), std::back_inserter(rows));
  return (rows.empty() ? "<p>The run did not record its machine.</p>\n" : pairs(rows)) +
         sessions_table(run);
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
constexpr std::array<Part, 9> kParts = {
    {{"time", "Time", "Where the time went", time_of},
     {"input", "Input", "The input's stages over the run", input_of},
     {"ledger", "Samples", "The ledger of samples", ledger_of},
     {"classes", "Classes", "Classes in the last evaluation", classes_of_run},
     {"evaluation", "Evaluation", "What the best evaluation found", evaluation_of, false},
     {"seen", "As seen", "As the model sees the samples", first_batch_of, false},
     {"data", "Data", "Data", data_of, false},
     {"machine", "Machine", "Machine, versions and sessions", machine_of, false},
     {"options", "Options", "Options as they were resolved", options_of, false}}};

/// What each run has to say; empty if none has.
std::string part_content(const Part& part, const std::vector<RunRecord>& runs) {
  std::string content;
  for (const RunRecord& run : runs) {
    const std::string own = part.needs_epochs && run.epochs.empty() ? "" : part.of(run);
    if (own.empty()) continue;
    if (runs.size() > 1)
      content += fmt::format("<h3 class=\"run\">{}{}</h3>\n",
                             swatch(static_cast<int>(&run - runs.data())), escaped(run.name));
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
  std::string links;
  std::string sections;
  const auto add = [&](const char* id, const char* link, const char* heading,
                       const std::string& content) {
    if (content.empty()) return;
    links += fmt::format("<a href=\"#{}\">{}</a>", id, link);
    sections += section(id, heading, content);
  };
  if (runs.size() > 1) add("compare", "Compared", "The runs beside each other", comparison(runs));
  add("curves", "Curves", "Curves over the run's steps", curves(runs));
  add("epochs", "Epochs", "Measures by epoch", epoch_tables(runs));
  if (runs.size() > 1)
    add("differ", "Differences", "Options that differ", option_differences(runs));
  for (const Part& part : kParts) add(part.id, part.link, part.title, part_content(part, runs));
  const std::string navigation = "<nav aria-label=\"Parts of this page\">" + links + "</nav>\n";
  return html::document(title, evaluation_style(),
                        head(runs, navigation) + "<main>\n" + sections + "</main>\n<footer>\n" +
                            notes(runs) +
                            "<p>Drawn by millrace report from the runs' folders.</p>\n</footer>\n");
}

}  // namespace millrace::tools

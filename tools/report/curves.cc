#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "tools/report/chart.h"
#include "tools/report/html.h"
#include "tools/report/parts.h"
#include "trainer/monitor.h"

namespace millrace::tools {
namespace {

using Points = std::vector<std::pair<double, double>>;

Points points_of(const std::vector<RunEvent>& events, const std::string& name) {
  Points points;
  for (const RunEvent& event : events)
    if (const auto value = number_in(event.values, name)) points.emplace_back(event.step, *value);
  return points;
}

/// Those that have a value that cannot be drawn: NaN is null in JSON.
std::size_t not_finite_in(const std::vector<RunEvent>& events, const std::string& name) {
  return static_cast<std::size_t>(std::ranges::count_if(events, [&](const RunEvent& event) {
    return event.values.contains(name) && !number_in(event.values, name);
  }));
}

/// What a figure shows, by the names in metrics.jsonl; empty: nothing.
struct CurveNames {
  std::string steps = {};
  std::string train = {};
  std::string val = {};
};

/// Of one run, whose curves differ in colour.
std::vector<Curve> curves_of_one(const RunRecord& run, const CurveNames& names) {
  return {{.name = "steps",
           .points = points_of(run.steps, names.steps),
           .colour = 7,
           .is_faint = true,
           .not_finite = not_finite_in(run.steps, names.steps)},
          {.name = "train",
           .points = points_of(run.epochs, names.train),
           .is_dashed = !names.val.empty(),
           .has_dots = true,
           .not_finite = not_finite_in(run.epochs, names.train)},
          {.name = "val",
           .points = points_of(run.epochs, names.val),
           .colour = 1,
           .has_dots = true,
           .not_finite = not_finite_in(run.epochs, names.val)}};
}

/// Of one of several: one colour, and one key, that of what is drawn solid.
void add_curves_of(const RunRecord& run, int colour, const CurveNames& names,
                   std::vector<Curve>& curves) {
  const Points val = points_of(run.epochs, names.val);
  const bool has_val = !names.val.empty();
  curves.push_back({.name = run.name + (names.train.empty() ? "" : ", steps"),
                    .points = points_of(run.steps, names.steps),
                    .colour = colour,
                    .is_faint = !names.train.empty(),
                    .has_key = names.train.empty(),
                    .not_finite = not_finite_in(run.steps, names.steps)});
  curves.push_back({.name = has_val ? run.name + ", train" : run.name,
                    .points = points_of(run.epochs, names.train),
                    .colour = colour,
                    .is_dashed = has_val,
                    .has_key = val.empty(),
                    .has_dots = true,
                    .not_finite = not_finite_in(run.epochs, names.train)});
  curves.push_back({.name = run.name + ", val",
                    .points = val,
                    .colour = colour,
                    .has_dots = true,
                    .not_finite = not_finite_in(run.epochs, names.val)});
}

std::vector<Curve> named_curves(const std::vector<RunRecord>& runs, const CurveNames& names) {
  if (runs.size() == 1) return curves_of_one(runs.front(), names);
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i)
    add_curves_of(runs[i], static_cast<int>(i), names, curves);
  return curves;
}

/// Lately, so that a pause within an epoch is seen; of earlier versions since the epoch began.
std::string step_rate_of(const std::vector<RunRecord>& runs) {
  const bool has_recent = std::ranges::all_of(runs, [](const RunRecord& run) {
    return run.steps.empty() || run.steps.back().values.contains("recent_rate");
  });
  return has_recent ? "recent_rate" : "total_rate";
}

/// The steps' losses of several runs have a figure of their own.
std::string loss_figures(const std::vector<RunRecord>& runs) {
  const bool is_alone = runs.size() == 1;
  std::string figures = curves_figure(
      {.title = "Loss",
       .text = html::number,
       .curves = named_curves(
           runs, {.steps = is_alone ? "loss" : "", .train = "train_loss", .val = "val_loss"}),
       .may_diverge = true});
  if (!is_alone)
    figures += curves_figure({.title = "Loss of the training's steps",
                              .text = html::number,
                              .curves = named_curves(runs, {.steps = "loss"}),
                              .may_diverge = true});
  return figures;
}

std::string rate_figures(const std::vector<RunRecord>& runs) {
  const auto figure = [&](const char* title, std::string (*text)(double), const CurveNames& names) {
    return curves_figure(
        {.title = title, .text = text, .curves = named_curves(runs, names), .from_zero = true});
  };
  return figure("Samples/s of all devices", html::number,
                {.steps = step_rate_of(runs), .train = "rate"}) +
         figure("Learning rate", html::number, {.steps = "lr"}) +
         figure("Share of time spent waiting for input", html::percent, {.train = "wait_share"});
}

}  // namespace

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
  std::string charts = loss_figures(runs);
  for (const std::string& name : measures_of(runs))
    charts += curves_figure(
        {.title = name,
         .text = measure_format(name),
         .curves = named_curves(runs, {.train = "train_" + name, .val = "val_" + name}),
         .may_diverge = trainer::less_is_better(name)});
  charts += rate_figures(runs);
  if (charts.empty()) return "<p>There is no step or epoch to draw yet.</p>\n";
  return "<p class=\"soft\">Where both are drawn, training is dashed and validation solid.</p>\n"
         "<div class=\"charts\">\n" +
         charts + "</div>\n";
}

}  // namespace millrace::tools

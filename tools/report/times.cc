#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/report/chart.h"
#include "tools/report/html.h"
#include "tools/report/parts.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMostBars = 16;

struct StepPart {
  const char* name;
  const char* said;
  int colour;
};
/// Those of a step that is composed, and of one that is a program of its devices.
constexpr std::array<StepPart, 8> kStepParts = {{{"wait", "wait for batches and their landing", 1},
                                                 {"land", "copies to the devices", 3},
                                                 {"device", "step on the devices", 0},
                                                 {"forward", "forward", 0},
                                                 {"backward", "backward", 4},
                                                 {"reduce", "reduce", 2},
                                                 {"peer_wait", "wait for slower replicas", 5},
                                                 {"update", "update", 3}}};

std::vector<BarPart> step_parts(const RecordJson& seconds) {
  std::vector<BarPart> parts;
  for (const StepPart& part : kStepParts)
    parts.push_back(
        {part.said, std::max(0.0, number_in(seconds, part.name).value_or(0)), part.colour});
  return parts;
}

std::string step_end(const std::vector<BarPart>& parts) {
  double sum = 0;
  for (const BarPart& part : parts) sum += part.value;
  return html::duration(sum) + "/step";
}

std::string step_bars(const RunRecord& run) {
  std::vector<Bar> rows;
  for (const RunEvent* epoch : some_of(run.epochs, kMostBars)) {
    const auto parts = step_parts(member(epoch->values, "step_seconds"));
    rows.push_back({.label = epoch_name(*epoch), .parts = parts, .end = step_end(parts)});
  }
  return bars(rows, html::duration, true) + left_out_text(run.epochs.size(), kMostBars);
}

std::string epoch_bars(const RunRecord& run) {
  std::vector<Bar> rows;
  for (const RunEvent* epoch : some_of(run.epochs, kMostBars)) {
    const auto seconds = [&](const char* name, double otherwise = 0) {
      return number_in(epoch->values, name).value_or(otherwise);
    };
    const double train = seconds("train_seconds");
    const double val = seconds("val_seconds");
    const double save = seconds("save_seconds");
    const double all = seconds("seconds", train + val + save);
    rows.push_back({.label = epoch_name(*epoch),
                    .parts = {{"training", train, 0},
                              {"evaluation", val, 2},
                              {"checkpoints", save, 4},
                              {"the rest", std::max(0.0, all - train - val - save), 7}},
                    .end = html::duration(all)});
  }
  return bars(rows, html::duration, false) + left_out_text(run.epochs.size(), kMostBars);
}

std::string device_bars(const RunRecord& run) {
  const RecordJson& by_rank = member(run.epochs.back().values, "step_seconds_by_rank");
  if (!by_rank.is_array() || by_rank.size() < 2) return {};
  const auto processes =
      static_cast<std::size_t>(std::clamp(number_in(run.start, "processes").value_or(1), 1.0, 1e6));
  const std::size_t devices = std::max<std::size_t>(1, by_rank.size() / processes);
  constexpr std::size_t kMost = 32;
  std::vector<Bar> rows;
  for (std::size_t rank = 0; rank < std::min(by_rank.size(), kMost); ++rank) {
    const auto parts = step_parts(by_rank[rank]);
    std::string name = fmt::format("rank {}", rank);
    if (processes > 1) name += fmt::format(" (process {})", rank / devices);
    rows.push_back({.label = name, .parts = parts, .end = step_end(parts)});
  }
  return "<h3>Of each device, in the last epoch</h3>\n" + bars(rows, html::duration, true);
}

/// Whether any epoch's steps have this part.
bool takes_time(const RunRecord& run, const char* part) {
  return std::ranges::any_of(run.epochs, [&](const RunEvent& epoch) {
    return number_in(member(epoch.values, "step_seconds"), part).value_or(0) > 0;
  });
}

}  // namespace

std::string time_of(const RunRecord& run) {
  std::vector<std::pair<std::string, int>> names;
  for (const StepPart& part : kStepParts)
    if (takes_time(run, part.name)) names.emplace_back(part.said, part.colour);
  return legend(names) + "<h3>Of a step, by epoch</h3>\n" + step_bars(run) + device_bars(run) +
         "<h3>Of an epoch</h3>\n" +
         legend({{"training", 0}, {"evaluation", 2}, {"checkpoints", 4}, {"the rest", 7}}) +
         epoch_bars(run);
}

}  // namespace millrace::tools

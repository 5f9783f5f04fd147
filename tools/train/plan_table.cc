#include "tools/train/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "io/base/text.h"
#include "io/base/wrap.h"
#include "trainer/nn/plan.h"

namespace millrace::tools {
namespace {

namespace nn = trainer::nn;
using trainer::PlanProfile;

constexpr double kGiga = 1e9;
constexpr double kMega = 1e6;
constexpr double kMilli = 1e-3;

std::string_view pass_name(nn::PlanPass pass) {
  return pass == nn::PlanPass::kForward ? "forward" : "backward";
}

std::string call_name(const nn::PlanStep& step) {
  return step.part.empty() ? step.kind : step.kind + ' ' + step.part;
}

/// Three digits, or as many as there are before the point: "0.007", "0.07", "41.3", "1302".
std::string short_number(double value) {
  if (value == 0) return "-";
  const int digits = value < 0.0995 ? 3 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, digits);
}

std::string ms_text(double seconds) { return short_number(seconds / kMilli) + " ms"; }

std::string percent(double share) {
  return fmt::format("{:.{}f} %", 100 * share, share < 0.0995 ? 1 : 0);
}

/// oneDNN's names end in the instructions, "brgconv:avx512_core_bf16", which are shorter without
/// "_core".
std::string how_text(const nn::PlanStep& step) {
  constexpr std::string_view kCore = "_core";
  std::string text = step.kernel;
  if (const std::size_t core = text.find(kCore); core != std::string::npos)
    text.erase(core, kCore.size());
  return text + ' ' + step.layout;
}

/// Of one step, or of several together.
struct Cost {
  double flops = 0;
  double bytes = 0;
  double seconds = 0;
  double least_seconds = 0;

  void operator+=(const Cost& other) {
    flops += other.flops;
    bytes += other.bytes;
    seconds += other.seconds;
    least_seconds += other.least_seconds;
  }
};

Cost cost_of(const PlanProfile& profile, std::size_t index) {
  const nn::PlanStep& step = profile.steps[index];
  return {.flops = step.flops,
          .bytes = step.bytes,
          .seconds = profile.seconds[index],
          .least_seconds = profile.peaks.least_seconds(step)};
}

std::string row(std::string_view what, std::string_view how, const Cost& cost) {
  const double share = cost.seconds > 0 ? cost.least_seconds / cost.seconds : 0.0;
  return fmt::format("  {:<14} {:<35} {:>6} {:>5} {:>6} {:>4.0f}%", what, how,
                     short_number(cost.flops / kGiga), short_number(cost.bytes / kMega),
                     short_number(cost.seconds / kMilli), 100 * share);
}

std::string heading(std::string_view of) {
  return fmt::format("{:<52} {:>6} {:>5} {:>6} {:>5}", of, "GFLOP", "MB", "ms", "limit");
}

std::string layer_row(const nn::PlanStep& step) {
  const std::string shapes = step.input == step.output
                                 ? nn::shape_text(step.output)
                                 : nn::shape_text(step.input) + " > " + nn::shape_text(step.output);
  return step.layer + "  " + shapes;
}

void print_rows(const PlanProfile& profile, Output& out) {
  const nn::PlanStep* before = nullptr;
  for (std::size_t i = 0; i < profile.steps.size(); ++i) {
    const nn::PlanStep& step = profile.steps[i];
    const bool turns = before == nullptr || before->pass != step.pass;
    if (turns) out.line("\n" + heading(pass_name(step.pass)));
    if (turns || before->layer != step.layer) out.line(layer_row(step));
    out.line(row(call_name(step), how_text(step), cost_of(profile, i)));
    before = &step;
  }
}

using KindCost = std::pair<std::string, Cost>;

/// The longest first.
std::vector<KindCost> costs_by_kind(const PlanProfile& profile) {
  std::vector<KindCost> costs;
  for (std::size_t i = 0; i < profile.steps.size(); ++i) {
    const std::string& kind = profile.steps[i].kind;
    auto at = std::ranges::find(costs, kind, &KindCost::first);
    if (at == costs.end()) at = costs.insert(costs.end(), {kind, {}});
    at->second += cost_of(profile, i);
  }
  std::ranges::stable_sort(costs, std::ranges::greater{},
                           [](const KindCost& cost) { return cost.second.seconds; });
  return costs;
}

void print_kinds(const PlanProfile& profile, Output& out) {
  Cost all;
  out.line("\n" + heading("by kind"));
  for (const auto& [kind, cost] : costs_by_kind(profile)) {
    out.line(row(kind, percent(cost.seconds / profile.sum_seconds()) + " of the time", cost));
    all += cost;
  }
  out.line(row("all", "", all));
}

/// `text` in lines of at most 80 characters, as far as its words allow.
void print_wrapped(const std::string& text, Output& out) { out.line(wrapped(text, 0, 0)); }

std::string sentence_of(const PlanProfile& profile, std::size_t index) {
  const nn::PlanStep& step = profile.steps[index];
  return fmt::format("{}, {} {}: {}, {} of the step's time, at {:.0f} % of the limit", step.layer,
                     pass_name(step.pass), call_name(step), ms_text(profile.seconds[index]),
                     percent(profile.seconds[index] / profile.sum_seconds()),
                     100 * profile.limit_share(index));
}

double lost_seconds(const PlanProfile& profile, std::size_t index) {
  return profile.seconds[index] - profile.peaks.least_seconds(profile.steps[index]);
}

/// The step for which `value` is largest.
template <typename Value>
std::size_t largest(const PlanProfile& profile, const Value& value) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < profile.steps.size(); ++i)
    if (value(i) > value(best)) best = i;
  return best;
}

void print_totals(const PlanProfile& profile, Output& out) {
  print_kinds(profile, out);
  out.line("");
  print_wrapped(
      fmt::format("Forward takes {}, backward {}, with no step timed. Loss, sums over devices and "
                  "the update are not part of the plan.",
                  ms_text(profile.forward_seconds), ms_text(profile.backward_seconds)),
      out);
  const std::size_t slowest = largest(profile, [&](std::size_t i) { return profile.seconds[i]; });
  print_wrapped("Slowest: " + sentence_of(profile, slowest) + ".", out);
  const std::size_t worst =
      largest(profile, [&](std::size_t i) { return lost_seconds(profile, i); });
  if (worst != slowest)
    print_wrapped("Most time above the limit: " + sentence_of(profile, worst) + ".", out);
}

void print_steps_json(const PlanProfile& profile, const PlanTableHead& head, Output& out) {
  for (std::size_t i = 0; i < profile.steps.size(); ++i) {
    const nn::PlanStep& step = profile.steps[i];
    const nlohmann::ordered_json line = {{"layer", step.layer},
                                         {"input", step.input},
                                         {"output", step.output},
                                         {"pass", pass_name(step.pass)},
                                         {"kind", step.kind},
                                         {"part", step.part},
                                         {"layout", step.layout},
                                         {"kernel", step.kernel},
                                         {"flops", step.flops},
                                         {"bytes", step.bytes},
                                         {"ms", profile.seconds[i] / kMilli},
                                         {"limit_share", profile.limit_share(i)}};
    out.line(json_text(line));
  }
  nlohmann::ordered_json kinds;
  for (const auto& [kind, cost] : costs_by_kind(profile)) kinds[kind] = cost.seconds / kMilli;
  const nlohmann::ordered_json total = {{"event", "plan"},
                                        {"model", head.model},
                                        {"batch_size", head.batch_size},
                                        {"precision", head.precision},
                                        {"threads", profile.threads},
                                        {"library", nn::compute_library()},
                                        {"peak_flops", profile.peaks.flops},
                                        {"peak_bytes", profile.peaks.bytes},
                                        {"forward_ms", profile.forward_seconds / kMilli},
                                        {"backward_ms", profile.backward_seconds / kMilli},
                                        {"kinds_ms", kinds}};
  out.line(json_text(total));
}

}  // namespace

void print_plan(const PlanProfile& profile, const PlanTableHead& head, Output& out) {
  if (head.json) return print_steps_json(profile, head, out);
  print_wrapped(
      fmt::format("{}: a training step of {}, {}, {}, {}", head.model,
                  counted(static_cast<std::uint64_t>(head.batch_size), "sample"), head.precision,
                  counted(static_cast<std::uint64_t>(profile.threads), "thread"),
                  nn::compute_library()),
      out);
  print_wrapped(
      fmt::format("Peaks measured here: {:.4g} GFLOP/s in products, {:.3g} GB/s in copies. "
                  "limit: the least time by these, of the time taken (above 100%: from "
                  "the caches).",
                  profile.peaks.flops / kGiga, profile.peaks.bytes / kGiga),
      out);
  print_rows(profile, out);
  print_totals(profile, out);
}

}  // namespace millrace::tools

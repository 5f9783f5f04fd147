#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "io/base/text.h"
#include "tools/report/html.h"
#include "tools/report/page.h"
#include "tools/report/parts.h"

namespace millrace::tools {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 7> kRemedies = {{
    {"input-bound by decode",
     "Give decoding more cores (--threads), store smaller pictures (reshard --jpeg 'resize(256)'; "
     "stats --storage tells), "
     "re-code JPEGs for random crops (reshard --jpeg restarts), or keep a small set decoded "
     "(--cache-decoded)."},
    {"input-bound by read over the network",
     "The network is the limit: read more shards at once (--streams), keep them on a disk "
     "(--cache), "
     "or store smaller pictures (reshard --jpeg 'resize(256)')."},
    {"input-bound by read",
     "Read more shards at once (--streams), make shards larger, or keep them nearer (--cache)."},
    {"input-bound by merge",
     "More --streams and a smaller --shuffle buffer leave less to put in order."},
    {"input-bound",
     "Measure the input alone with millrace bench: it names the stage that is slow."},
    {"reduction-bound",
     "Larger batches or --accumulate make sums rarer; --allreduce tree-bf16 halves their bytes; "
     "fewer processes or a faster network shorten them."},
    {"compute-bound",
     "The input is fast enough. train --dump-plan shows which layer takes the time."},
}};

/// "input-bound by decode" of "input-bound by decode (waits 7.1 %)".
std::string kind_of(const RecordJson& epoch) {
  const std::string verdict = text_in(epoch, "verdict");
  return verdict.substr(0, verdict.find(" ("));
}

/// Epochs of one kind.
struct LimitKind {
  std::string name;
  std::size_t epochs = 0;
  double seconds = 0;
};

std::vector<LimitKind> limit_kinds(const RunRecord& run) {
  std::vector<LimitKind> kinds;
  for (const RunEvent& epoch : run.epochs) {
    const std::string name = kind_of(epoch.values);
    if (name.empty()) continue;
    auto known = std::ranges::find(kinds, name, &LimitKind::name);
    if (known == kinds.end()) known = kinds.insert(known, {.name = name});
    ++known->epochs;
    if (!name.starts_with("too short"))
      known->seconds += 1e-9 + number_in(epoch.values, "train_seconds").value_or(0);
  }
  return kinds;
}

/// The one of most of the time; those too short to tell count only if all are.
LimitKind main_kind(const std::vector<LimitKind>& kinds) {
  const auto most = std::ranges::max_element(kinds, {}, &LimitKind::seconds);
  return most == kinds.end() ? LimitKind() : *most;
}

std::string kind_text(const LimitKind& kind, const RunRecord& run) {
  const std::size_t epochs = run.epochs.size();
  if (kind.name.starts_with("too short"))
    return epochs == 1 ? "The epoch was too short to tell what limits it."
                       : "The epochs were too short to tell what limits them.";
  if (epochs == 1) return fmt::format("The epoch was {}.", kind.name);
  if (kind.epochs == epochs) return fmt::format("Each epoch was {}.", kind.name);
  return fmt::format("{} of {} epochs ({} of the time of training) {} {}.", kind.epochs, epochs,
                     html::percent(kind.seconds / std::max(kind.seconds, train_seconds(run))),
                     kind.epochs == 1 ? "was" : "were", kind.name);
}

/// Seconds of an epoch's training that its devices have waited.
double waited(const RecordJson& epoch) {
  return std::max(0.0, number_in(epoch, "wait_share").value_or(0)) *
         number_in(epoch, "train_seconds").value_or(0);
}

double waited(const RunRecord& run) {
  double all = 0;
  for (const RunEvent& epoch : run.epochs) all += waited(epoch.values);
  return all;
}

std::string wait_text(const RunRecord& run) {
  const auto worst = std::ranges::max_element(
      run.epochs, {}, [](const RunEvent& epoch) { return waited(epoch.values); });
  const double all = waited(run);
  const double seconds = train_seconds(run);
  if (all <= 0 || seconds <= 0) return {};
  std::string text =
      fmt::format(" Of {} of training, {} ({}) were spent waiting for batches",
                  html::duration(seconds), html::duration(all), html::percent(all / seconds));
  if (run.epochs.size() > 1)
    text += fmt::format(", most in {}: {}", epoch_name(*worst),
                        html::percent(number_in(worst->values, "wait_share").value_or(0)));
  return text + ".";
}

std::string remedy_for(const std::string& kind) {
  const auto remedy =
      std::ranges::find_if(kRemedies, [&](const auto& one) { return kind.starts_with(one.first); });
  return remedy == kRemedies.end() ? "" : remedy->second;
}

/// Above this share of waiting the input is too slow, of a run as of an epoch.
constexpr double kTooLongWait = 0.05;

/// Of a run whose epochs were mostly compute-bound and that has waited too long in the others.
std::string remedy_for_waits(std::vector<LimitKind> kinds) {
  std::erase_if(kinds, [](const LimitKind& kind) { return !kind.name.starts_with("input-bound"); });
  const LimitKind kind = main_kind(kinds);
  if (kind.name.empty()) return "Over the whole run that is too long. " + remedy_for("input-bound");
  return fmt::format("{} {} {}. {}", counted(kind.epochs, "epoch"),
                     kind.epochs == 1 ? "was" : "were", kind.name, remedy_for(kind.name));
}

}  // namespace

Advice advice_of(const RunRecord& run) {
  const std::vector<LimitKind> kinds = limit_kinds(run);
  const LimitKind kind = main_kind(kinds);
  if (kind.name.empty()) return {};
  const bool has_waited =
      kind.name.starts_with("compute-bound") && waited(run) > kTooLongWait * train_seconds(run);
  return {.limit = kind.name,
          .verdict = kind_text(kind, run) + wait_text(run),
          .what_to_do = has_waited ? remedy_for_waits(kinds) : remedy_for(kind.name)};
}

}  // namespace millrace::tools

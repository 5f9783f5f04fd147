#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

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

/// What most of the time of training was; those too short to tell count only if all are.
LimitKind main_kind(const RunRecord& run) {
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
  const auto most = std::ranges::max_element(kinds, {}, &LimitKind::seconds);
  return most == kinds.end() ? LimitKind() : *most;
}

std::string kind_text(const LimitKind& kind, std::size_t epochs) {
  if (kind.name.starts_with("too short"))
    return epochs == 1 ? "The epoch was too short to tell what limits it."
                       : "The epochs were too short to tell what limits them.";
  if (epochs == 1) return fmt::format("The epoch was {}.", kind.name);
  if (kind.epochs == epochs) return fmt::format("Each epoch was {}.", kind.name);
  return fmt::format("Most of the training ({} of {} epochs) was {}.", kind.epochs, epochs,
                     kind.name);
}

/// Seconds of an epoch's training that its devices have waited.
double waited(const RecordJson& epoch) {
  return std::max(0.0, number_in(epoch, "wait_share").value_or(0)) *
         number_in(epoch, "train_seconds").value_or(0);
}

std::string wait_text(const RunRecord& run) {
  double all = 0;
  const RunEvent* worst = &run.epochs.front();
  for (const RunEvent& epoch : run.epochs) {
    all += waited(epoch.values);
    if (waited(epoch.values) > waited(worst->values)) worst = &epoch;
  }
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

}  // namespace

Advice advice_of(const RunRecord& run) {
  const LimitKind kind = main_kind(run);
  if (kind.name.empty()) return {};
  Advice advice{.limit = kind.name, .verdict = kind_text(kind, run.epochs.size()) + wait_text(run)};
  const auto remedy = std::ranges::find_if(
      kRemedies, [&](const auto& one) { return kind.name.starts_with(one.first); });
  if (remedy != kRemedies.end()) advice.what_to_do = remedy->second;
  return advice;
}

}  // namespace millrace::tools

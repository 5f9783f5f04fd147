#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "io/base/text.h"
#include "tools/report/html.h"
#include "tools/report/parts.h"

namespace millrace::tools {
namespace {

using html::escaped;
using LedgerRow = std::vector<std::string>;

constexpr std::size_t kMostEpochs = 40;
constexpr std::size_t kMostSkips = 200;

std::string ledger_number(double value) { return fmt::format("{:.0f}", value); }

std::string faults_text(const RecordJson& epoch) {
  std::string text;
  const RecordJson& faults = member(member(epoch, "input"), "faults");
  if (!faults.is_object()) return "–";
  for (const auto& [name, samples] : faults.items())
    text +=
        fmt::format("{}{} {}", text.empty() ? "" : ", ", json_value_text(samples), escaped(name));
  return text.empty() ? "none" : text;
}

/// What a set has, by its index, and what a pass over it takes, as the options say.
struct SetCounts {
  std::optional<double> index;
  std::optional<double> planned;

  explicit SetCounts(const RecordJson& set)
      : index(number_in(set, "samples")), planned(number_in(set, "epoch_samples")) {}
  /// What a pass is compared with.
  std::optional<double> wanted() const { return planned ? planned : index; }
};

/// A set as the sessions of a run have had it.
class SetOfSessions {
 public:
  SetOfSessions(const RunRecord& run, const char* name)
      : name_(name), last_(member(run.start, "data")), sessions_(sessions_of(run.start)) {}

  /// As the session had it that ended the epoch: the last one that began with it or before.
  const RecordJson& at(const RunEvent& epoch) const {
    const double number = number_in(epoch.values, "epoch").value_or(0);
    const RecordJson* data = &last_;
    for (const RecordJson& session : sessions_)
      if (const auto first = number_in(session, "first_epoch"); first && *first <= number)
        if (member(session, "data").is_object()) data = &member(session, "data");
    return member(*data, name_);
  }
  SetCounts counts(const RunEvent& epoch) const { return SetCounts(at(epoch)); }

 private:
  const char* name_;
  const RecordJson& last_;
  RecordJson sessions_;
};

bool is_same_set(const RecordJson& one, const RecordJson& other) {
  return number_in(one, "samples") == number_in(other, "samples") &&
         text_in(one, "digest") == text_in(other, "digest");
}

/// From which epoch on a resumed run took another set.
std::string changes_text(const RunRecord& run, const SetOfSessions& set, const char* what) {
  std::string text;
  for (std::size_t i = 1; i < run.epochs.size(); ++i) {
    const RecordJson& before = set.at(run.epochs[i - 1]);
    const RecordJson& now = set.at(run.epochs[i]);
    if (is_same_set(before, now)) continue;
    text += fmt::format(
        "<p>From {} on the run {} another set: {} samples by its index, {} before."
        "</p>\n",
        epoch_name(run.epochs[i]), what, html::or_dash(number_in(now, "samples"), ledger_number),
        html::or_dash(number_in(before, "samples"), ledger_number));
  }
  return text;
}

/// What became of a pass's samples.
struct Pass {
  double used = 0;
  double skipped = 0;
  double filtered = 0;
  double in_skipped_steps = 0;
  double skipped_steps = 0;

  double sum() const { return used + skipped; }
  double not_used(const SetCounts& set) const {
    return set.wanted().value_or(sum() + in_skipped_steps) - sum() - in_skipped_steps;
  }
  bool is_whole(const SetCounts& set) const { return set.wanted() && sum() == *set.wanted(); }
};

Pass training_pass(const RecordJson& epoch) {
  return {.used = number_in(epoch, "train_samples").value_or(0),
          .skipped = number_in(epoch, "skipped").value_or(0),
          .filtered = number_in(member(epoch, "input"), "filtered").value_or(0),
          .in_skipped_steps = skipped_steps(epoch).samples,
          .skipped_steps = skipped_steps(epoch).skipped};
}

Pass evaluation_pass(const RecordJson& epoch) {
  return {.used = number_in(epoch, "val_samples").value_or(0),
          .skipped = number_in(epoch, "val_skipped").value_or(0)};
}

/// The difference between the index and what the options and the filter make of it.
std::optional<double> by_options(const Pass& pass, const SetCounts& set) {
  if (!set.index || !set.planned) return {};
  return *set.planned + pass.filtered - *set.index;
}

std::string by_options_text(const Pass& pass, const SetCounts& set) {
  const auto difference = by_options(pass, set);
  if (!difference) return "–";
  if (*difference == 0) return "0";
  return *difference < 0 ? ledger_number(-*difference) + " left out"
                         : ledger_number(*difference) + " more";
}

/// Whether the sum is what was to be expected.
std::string balance(const Pass& pass, const SetCounts& set) {
  const auto wanted = set.wanted();
  if (!wanted) return "no index";
  if (pass.is_whole(set)) return "<span class=\"good\">✓ all of them</span>";
  std::string text;
  if (pass.skipped_steps > 0)
    text = fmt::format("{:.0f} in {} that were skipped", pass.in_skipped_steps,
                       counted(static_cast<std::uint64_t>(pass.skipped_steps), "step"));
  const double left = pass.not_used(set);
  if (left == 0) return text;
  return text + (text.empty() ? "" : ", ") +
         (left > 0 ? ledger_number(left) + " not used" : fmt::format("{:+.0f}", -left));
}

std::string train_table(const RunRecord& run, const SetOfSessions& sets) {
  std::vector<LedgerRow> rows;
  for (const RunEvent* epoch : some_of(run.epochs, kMostEpochs)) {
    const Pass pass = training_pass(epoch->values);
    const SetCounts set = sets.counts(*epoch);
    rows.push_back({escaped(epoch_name(*epoch)), ledger_number(pass.used),
                    ledger_number(pass.skipped), faults_text(epoch->values),
                    ledger_number(pass.filtered), by_options_text(pass, set),
                    html::or_dash(set.index, ledger_number), balance(pass, set),
                    ledger_number(number_in(epoch->values, "refetched").value_or(0))});
  }
  return html::table({{"training"},
                      {"trained on", true},
                      {"skipped", true},
                      {"by fault"},
                      {"filtered", true},
                      {"by options", true},
                      {"index", true},
                      {"of what an epoch takes"},
                      {"fetched again", true}},
                     rows) +
         left_out_text(run.epochs.size(), kMostEpochs);
}

std::string evaluation_table(const RunRecord& run) {
  const SetOfSessions sets(run, "val");
  std::vector<LedgerRow> rows;
  for (const RunEvent* epoch : some_of(run.epochs, kMostEpochs)) {
    const Pass pass = evaluation_pass(epoch->values);
    if (pass.sum() == 0) continue;
    const SetCounts set = sets.counts(*epoch);
    rows.push_back({escaped(epoch_name(*epoch)), ledger_number(pass.used),
                    ledger_number(pass.skipped), html::or_dash(set.index, ledger_number),
                    balance(pass, set)});
  }
  if (rows.empty()) return {};
  return changes_text(run, sets, "was evaluated on") +
         html::table({{"evaluation"},
                      {"evaluated on", true},
                      {"skipped", true},
                      {"index", true},
                      {"of what an evaluation takes"}},
                     rows);
}

std::string balance_text(const RunRecord& run, const SetOfSessions& sets) {
  const auto each = [&](const auto& holds) {
    return std::ranges::all_of(run.epochs, [&](const RunEvent& epoch) {
      return holds(training_pass(epoch.values), sets.counts(epoch));
    });
  };
  const bool is_whole =
      each([](const Pass& pass, const SetCounts& set) { return pass.is_whole(set); });
  const bool is_plain = each([](const Pass& pass, const SetCounts& set) {
    return pass.filtered == 0 && by_options(pass, set).value_or(0) == 0;
  });
  if (is_whole && is_plain)
    return "Each epoch trained on as many samples as the index has, but for those that a fault has "
           "cost, which are counted here.";
  if (is_whole)
    return "Each epoch trained on as many samples as its options take of the index, but for those "
           "that a fault has cost: trained on + skipped + filtered = index, less what the options "
           "leave out, or with what they take again.";
  const bool has_skipped_steps =
      !each([](const Pass& pass, const SetCounts& /*set*/) { return pass.skipped_steps == 0; });
  std::string text;
  if (has_skipped_steps)
    text =
        "Samples of steps that were skipped have trained nothing: loss or gradients were not "
        "finite. ";
  if (!each([](const Pass& pass, const SetCounts& set) { return pass.not_used(set) == 0; }))
    text +=
        "What an epoch takes and does not use is left where the epoch was cut, by an option or "
        "a stop, or the last batch was not full and dropped.";
  return text;
}

LedgerRow skip_row(const RunEvent& epoch, const RecordJson& skip) {
  const auto code = [&](const char* name) {
    const std::string text = text_in(skip, name);
    return text.empty() ? "–" : "<code>" + escaped(text) + "</code>";
  };
  return {escaped(epoch_name(epoch)),
          code("shard"),
          code("key"),
          code("member"),
          html::or_dash(number_in(skip, "offset"), ledger_number),
          ledger_number(number_in(skip, "samples").value_or(1)),
          escaped(text_in(skip, "fault")) + ": " + escaped(text_in(skip, "reason"))};
}

/// Those that the metrics list, which are the first ones of each epoch.
std::string skips_table(const RunRecord& run) {
  std::vector<LedgerRow> rows;
  std::size_t all = 0;
  for (const RunEvent& epoch : run.epochs) {
    const RecordJson& skips = member(member(epoch.values, "input"), "skips");
    if (!skips.is_array()) continue;
    for (const RecordJson& skip : skips)
      if (++all <= kMostSkips) rows.push_back(skip_row(epoch, skip));
  }
  if (rows.empty()) return {};
  std::string text =
      "<h3>Skipped samples</h3>\n" +
      html::table(
          {{"epoch"}, {"shard"}, {"key"}, {"member"}, {"offset", true}, {"samples", true}, {"why"}},
          rows);
  if (all > rows.size())
    text += fmt::format("<p class=\"soft\">and {} more in metrics.jsonl</p>\n", all - rows.size());
  return text;
}

}  // namespace

std::string ledger_of(const RunRecord& run) {
  const SetOfSessions sets(run, "train");
  return fmt::format("<p>{}</p>\n", balance_text(run, sets)) +
         changes_text(run, sets, "trained on") + train_table(run, sets) + evaluation_table(run) +
         skips_table(run);
}

}  // namespace millrace::tools

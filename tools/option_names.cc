#include "tools/option_names.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <map>
#include <utility>

#include "io/base/error.h"
#include "io/base/suggest.h"
#include "io/base/text.h"
#include "tools/help.h"

namespace millrace::tools {
namespace {

/// Another name of an option, and what it says of the value.
struct Alias {
  std::string_view name;
  std::string_view known;
  std::string_view unit = {};   ///< of a value without one
  std::string_view value = {};  ///< of a flag that stands for a value
};

/// Other tools' names and ours; the first one that the command has is used.
constexpr Alias kAliases[] = {
    {"max-epochs", "epochs"},
    {"num-epochs", "epochs"},
    {"n-epochs", "epochs"},
    {"learning-rate", "lr"},
    {"base-lr", "lr"},
    {"lr-scheduler", "schedule"},
    {"scheduler", "schedule"},
    {"batch", "batch-size"},
    {"bs", "batch-size"},
    {"train-batch-size", "batch-size"},
    {"global-batch", "batch-size", "/all"},
    {"global-batch-size", "batch-size", "/all"},
    {"passes", "repeat"},
    {"drop-last", "uneven", {}, "drop"},
    {"partial", "uneven", {}, "partial"},
    {"per-device-train-batch-size", "batch-size"},
    {"workers", "streams", "/process"},
    {"num-workers", "streams", "/process"},
    {"num-threads", "threads"},
    {"jobs", "threads"},
    {"prefetch-factor", "prefetch"},
    {"num-devices", "devices"},
    {"reduce", "allreduce"},
    {"device", "accelerator"},
    {"dtype", "precision"},
    {"optim", "optimizer"},
    {"opt", "optimizer"},
    {"wd", "weight-decay"},
    {"accumulate-grad-batches", "accumulate"},
    {"gradient-accumulation-steps", "accumulate"},
    {"gradient-clip-val", "clip-norm"},
    {"max-grad-norm", "clip-norm"},
    {"ema-decay", "ema"},
    {"arch", "model"},
    {"num-classes", "classes"},
    {"image-size", "size"},
    {"img-size", "size"},
    {"resolution", "size"},
    {"random-seed", "seed"},
    {"manual-seed", "seed"},
    {"train-data", "train"},
    {"val-data", "val"},
    {"valid", "val"},
    {"validation", "val"},
    {"shuffle-buffer", "shuffle"},
    {"buffer-size", "shuffle"},
    {"shuffle", "shuffle-seed"},  // where there is no buffer, whose length it is
    {"world-size", "processes"},
    {"world", "processes"},
    {"rank", "process"},
    {"log-every-n-steps", "log-steps"},
    {"print-freq", "log-steps"},
    {"num-sanity-val-steps", "sanity-val-steps"},
    {"default-root-dir", "run-dir"},
    {"output-dir", "run-dir"},
    {"log-dir", "run-dir"},
    {"weights", "init"},
    {"ckpt-path", "resume"},
    {"ckpt-path", "checkpoint"},
    {"ckpt", "checkpoint"},
    {"resume-from-checkpoint", "resume"},
    {"accept-changed-data", "allow-changed-data"},
    {"mask-colors", "task.colors"},
    {"epsilon", "optimizer.eps"},
    {"no-decay-norms-biases", "optimizer.groups", {}, "[group(norms-biases, weight_decay=0)]"},
    {"schedule-unit", "schedule.by"},
    {"step-epochs", "schedule.every"},
    {"step-size", "schedule.every"},
    {"min-lr", "schedule.to"},
    {"eta-min", "schedule.to"},
    {"warmup-epochs", "schedule.warmup", "ep"},
    {"warmup-steps", "schedule.warmup", "steps"},
};

/// Options that are no more, with the words for what they did.
constexpr std::pair<std::string_view, std::string_view> kGone[] = {
    {"reduce-precision", "--allreduce tree-bf16 sends gradients in bf16"},
    {"divisor", "--schedule 'step(30, gamma=0.2)' has the factor, 1 / divisor, as gamma"},
};

/// Options for processors that this program does not use.
constexpr std::array<std::string_view, 10> kOtherProcessors = {
    "gpus",      "gpu",  "num-gpus", "n-gpu", "gpus-per-node",
    "tpu-cores", "tpus", "hpus",     "ipus",  "cuda"};

bool has(const CLI::App& app, const std::string& name) {
  return app.get_option_no_throw("--" + name) != nullptr;
}

/// What an option may be called, by others too.
std::vector<std::string> long_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const Alias& alias : kAliases)
    if (has(app, std::string(alias.known))) names.push_back("--" + std::string(alias.name));
  return names;
}

/// In the command line's spelling: lower case, dashes.
std::string spelt(std::string_view name) {
  std::string text;
  for (const char letter : name)
    text +=
        letter == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

/// The user would believe that it is used.
void refuse_other_processor(const CLI::App& app, const std::string& name) {
  if (std::ranges::find(kOtherProcessors, name) == kOtherProcessors.end() || !has(app, "devices"))
    return;
  throw Error(ErrorCode::kInvalidArgument,
              "--" + name +
                  ": there is no such processor to train on, only the CPU: --devices N divides its "
                  "cores among N devices");
}

void refuse_gone(const CLI::App& app, const std::string& name) {
  for (const auto& [gone, said] : kGone)
    if (gone == name && has(app, "schedule"))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("--{} is gone: {}", name, said));
}

/// With an empty name if it is not an option. Throws: InvalidArgument for another processor's, and
/// for one that is no more.
KnownOption known_option(const CLI::App& app, std::string_view name) {
  const std::string usual = spelt(name);
  refuse_other_processor(app, usual);
  if (has(app, usual)) return {.name = usual};
  for (const Alias& alias : kAliases)
    if (alias.name == usual && has(app, std::string(alias.known)))
      return {.name = std::string(alias.known),
              .unit = std::string(alias.unit),
              .value = std::string(alias.value)};
  refuse_gone(app, usual);
  return {};
}

std::string known_name(const CLI::App& app, std::string_view name) {
  return known_option(app, name).name;
}

[[noreturn]] void refuse_option(const CLI::App& app, const std::string& word) {
  throw Error(ErrorCode::kInvalidArgument, "unknown option " + printable(word) +
                                               did_you_mean(word, long_names(app)) + " (see " +
                                               app.get_name() + " --help)");
}

/// "-5", "-.5", "-inf": a number, not an option.
bool is_negative_number(const std::string& word) {
  char* end = nullptr;
  static_cast<void>(std::strtod(word.c_str(), &end));
  return end == word.c_str() + word.size();
}

/// Whether the option has no value unless one is given. --no-shuffle would not be the default.
bool is_off_by_default(const CLI::Option& option) {
  const std::string value = option.get_default_str();
  const bool has_none = value.empty() || value == "[]" || value == "\"\"";
  return has_none && option.get_configurable() &&
         option.get_description().find('[') == std::string::npos;
}

/// The option that --no-NAME undoes; empty for any other word.
std::string undone_name(const CLI::App& app, std::string_view word) {
  constexpr std::string_view kNo = "--no-";
  if (!word.starts_with(kNo) || has(app, std::string(word.substr(2)))) return {};
  std::string name = known_name(app, word.substr(kNo.size()));
  return !name.empty() && is_off_by_default(*app.get_option("--" + name)) ? name : std::string();
}

std::string with_known_option(const CLI::App& app, const std::string& word) {
  if (word.size() < 2 || word[0] != '-' || is_negative_number(word)) return word;
  if (word[1] != '-') {
    const bool known = app.get_option_no_throw(word.substr(0, 2)) != nullptr;
    if (!known) refuse_option(app, word);
    return word;
  }
  const std::size_t equals = std::min(word.find('='), word.size());
  const KnownOption known = known_option(app, std::string_view(word).substr(2, equals - 2));
  if (known.name.empty() && !undone_name(app, spelt(word)).empty()) return spelt(word);
  if (known.name.empty()) refuse_option(app, word.substr(0, equals));
  if (!known.value.empty()) return "--" + known.name + "=" + known.value;
  const std::string value = equals < word.size() ? "=" + known.valued(word.substr(equals + 1)) : "";
  return "--" + known.name + value;
}

/// The value that follows the option's name.
std::string with_unit(const CLI::App& app, const std::string& word, const std::string& value) {
  return word.starts_with("--") ? known_option(app, word.substr(2)).valued(value) : value;
}

/// Two names of an option that has one value. `names`: those that were given.
void check_one_name(const CLI::App& app, const std::string& known, const std::string& given,
                    std::map<std::string, std::string>& names) {
  if (!known.starts_with("--")) return;
  const std::string option = known.substr(0, known.find('='));
  const std::string name = given.substr(0, given.find('='));
  const auto [first, fresh] = names.emplace(option, name);
  const CLI::Option* declared = app.get_option_no_throw(option);
  if (fresh || declared == nullptr || declared->get_expected_max() > 1) return;
  require(first->second == name,
          first->second + " and " + name + " are both " + option + ": give only one of them");
}

/// Whether the word is an option that takes the next word as its value.
bool wants_value(const CLI::App& app, const std::string& word) {
  if (word.size() < 2 || word[0] != '-' || word.find('=') != std::string::npos) return false;
  const CLI::Option* option = app.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_min() > 0;
}

}  // namespace

std::string KnownOption::valued(const std::string& given) const {
  const bool is_number =
      !given.empty() &&
      (std::isdigit(static_cast<unsigned char>(given.back())) != 0 || given.back() == '.');
  return is_number ? given + unit : given;
}

KnownOption option_called(const CLI::App& app, std::string_view name) {
  KnownOption known = known_option(app, name);
  if (known.name.empty()) refuse_option(app, "--" + std::string(name));
  return known;
}

std::string option_name(const CLI::App& app, std::string_view name) {
  return option_called(app, name).name;
}

bool is_gone(std::string_view name) {
  return std::ranges::any_of(kGone, [&](const auto& gone) { return gone.first == name; });
}

std::string alias_help(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;
    for (std::size_t i = 1; i < option->get_lnames().size(); ++i)
      text += fmt::format("  --{:<26}--{}\n", option->get_lnames()[i], option->get_lnames()[0]);
    if (option->get_positional())
      text += fmt::format("  --{:<26}{}...\n", option->get_lnames()[0], option->get_name(true));
    if (option->get_group() == kHiddenGroup &&
        option->get_lnames()[0].find('.') == std::string::npos)
      text += fmt::format("  --{:<26}{}\n", option->get_lnames()[0], option->get_description());
  }
  for (const Alias& alias : kAliases) {
    if (!has(app, std::string(alias.known)) || has(app, std::string(alias.name))) continue;
    const std::string value = alias.value.empty()
                                  ? alias.unit.empty() ? "" : fmt::format(" N{}", alias.unit)
                                  : fmt::format(" '{}'", alias.value);
    text += fmt::format("  --{:<26}--{}{}\n", alias.name, alias.known, value);
  }
  return text.empty() ? text : "Other names of options:\n" + text;
}

std::vector<std::string> take_undone(const CLI::App& app, std::vector<std::string>& words) {
  std::vector<std::string> names;
  const auto end = std::ranges::find(words, "--");
  const auto kept = std::remove_if(words.begin(), end, [&](const std::string& word) {
    const std::string name = undone_name(app, word);
    if (!name.empty()) names.push_back(name);
    return !name.empty();
  });
  words.erase(kept, end);
  for (const std::string& name : names)
    for (const std::string& word : words)
      require(word != "--" + name && !word.starts_with("--" + name + "="),
              "--" + name + " and --no-" + name + ": give only one of them");
  return names;
}

std::vector<std::string> with_known_options(const CLI::App& app,
                                            std::span<const std::string> words) {
  std::vector<std::string> known;
  std::map<std::string, std::string> names;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      known.insert(known.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      return known;
    }
    known.push_back(with_known_option(app, words[i]));
    check_one_name(app, known.back(), words[i], names);
    if (!wants_value(app, known.back())) continue;
    const bool missing = i + 1 == words.size() || words[i + 1].starts_with("--");
    if (missing) throw Error(ErrorCode::kInvalidArgument, known.back() + " needs a value");
    ++i;
    known.push_back(with_unit(app, words[i - 1], words[i]));
  }
  return known;
}

}  // namespace millrace::tools

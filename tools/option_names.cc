#include "tools/option_names.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "io/base/error.h"
#include "io/base/suggest.h"
#include "io/base/text.h"

namespace millrace::tools {
namespace {

/// Other tools' names and ours; the first one that the command has is used.
constexpr std::array<std::pair<std::string_view, std::string_view>, 56> kAliases = {{
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
    {"per-device-train-batch-size", "batch-size"},
    {"num-workers", "workers"},
    {"num-threads", "threads"},
    {"jobs", "threads"},
    {"prefetch-factor", "prefetch"},
    {"num-devices", "devices"},
    {"device", "accelerator"},
    {"dtype", "precision"},
    {"optim", "optimizer"},
    {"opt", "optimizer"},
    {"wd", "weight-decay"},
    {"eps", "epsilon"},
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
}};

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
  for (const auto& [alias, known] : kAliases)
    if (has(app, std::string(known))) names.push_back("--" + std::string(alias));
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

/// Empty if the name is not an option. Throws: InvalidArgument for another processor's.
std::string known_name(const CLI::App& app, std::string_view name) {
  std::string usual = spelt(name);
  refuse_other_processor(app, usual);
  if (has(app, usual)) return usual;
  for (const auto& [alias, known] : kAliases)
    if (alias == usual && has(app, std::string(known))) return std::string(known);
  return {};
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
  const std::string name = known_name(app, std::string_view(word).substr(2, equals - 2));
  if (name.empty() && !undone_name(app, spelt(word)).empty()) return spelt(word);
  if (name.empty()) refuse_option(app, word.substr(0, equals));
  return "--" + name + word.substr(equals);
}

/// Whether the word is an option that takes the next word as its value.
bool wants_value(const CLI::App& app, const std::string& word) {
  if (word.size() < 2 || word[0] != '-' || word.find('=') != std::string::npos) return false;
  const CLI::Option* option = app.get_option_no_throw(word);
  return option != nullptr && option->get_items_expected_min() > 0;
}

}  // namespace

std::string option_name(const CLI::App& app, std::string_view name) {
  std::string known = known_name(app, name);
  if (known.empty()) refuse_option(app, "--" + std::string(name));
  return known;
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
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      known.insert(known.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      return known;
    }
    known.push_back(with_known_option(app, words[i]));
    if (!wants_value(app, known.back())) continue;
    const bool missing = i + 1 == words.size() || words[i + 1].starts_with("--");
    if (missing) throw Error(ErrorCode::kInvalidArgument, known.back() + " needs a value");
    known.push_back(words[++i]);
  }
  return known;
}

}  // namespace millrace::tools

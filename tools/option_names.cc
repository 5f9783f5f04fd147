#include "tools/option_names.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>

#include "io/base/error.h"
#include "io/base/suggest.h"
#include "io/base/text.h"
#include "io/base/wrap.h"
#include "tools/help.h"

namespace millrace::tools {
namespace {

/// Options for processors that this program does not use.
constexpr std::array<std::string_view, 10> kOtherProcessors = {
    "gpus",      "gpu",  "num-gpus", "n-gpu", "gpus-per-node",
    "tpu-cores", "tpus", "hpus",     "ipus",  "cuda"};

bool has(const CLI::App& app, const std::string& name) {
  return app.get_option_no_throw("--" + name) != nullptr;
}

/// The options' own names, without dashes.
std::vector<std::string> own_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    std::ranges::copy(option->get_lnames(), std::back_inserter(names));
  return names;
}

/// Short forms of components' fields: "momentum" of "optimizer.momentum".
std::map<std::string, std::string> short_forms(std::span<const std::string> names) {
  std::map<std::string, std::string> known;
  for (const std::string& name : names)
    if (const std::size_t dot = name.find('.'); dot != std::string::npos)
      if (const std::string field = name.substr(dot + 1);
          std::ranges::find(names, field) == names.end())
        known.emplace(field, name);
  return known;
}

/// What an option may be called, by others too.
std::vector<std::string> long_names(const CLI::App& app) {
  const std::vector<std::string> own = own_names(app);
  std::vector<std::string> names;
  for (const std::string& name : own) names.push_back("--" + name);
  for (const auto& [name, field] : short_forms(own)) names.push_back("--" + name);
  for (const OptionAlias& alias : option_aliases())
    if (!known_among(own, std::string(alias.name)).name.empty())
      names.push_back("--" + std::string(alias.name));
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

/// Which kind of device is meant is not said.
void refuse_other_processor(const CLI::App& app, const std::string& name) {
  if (std::ranges::find(kOtherProcessors, name) == kOtherProcessors.end() || !has(app, "devices"))
    return;
  throw Error(ErrorCode::kInvalidArgument,
              "--" + name +
                  ": --devices cuda:2, tpu or rocm names an accelerator's devices; --devices N "
                  "divides the CPU's cores among N devices");
}

void refuse_foreign(const CLI::App& app, const std::string& name) {
  for (const auto& [foreign, option, said] : foreign_options())
    if (foreign == name && has(app, std::string(option)))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("--{}: {}", name, said));
}

void refuse_gone(const CLI::App& app, const std::string& name) {
  for (const auto& [gone, said] : gone_options())
    if (gone == name && has(app, "schedule"))
      throw Error(ErrorCode::kInvalidArgument, fmt::format("--{} is gone: {}", name, said));
}

/// With an empty name if it is not an option. Throws: InvalidArgument for another processor's, for
/// one of another tool that has no one name here, and for one that is no more.
KnownOption known_option(const CLI::App& app, std::string_view name) {
  const std::string usual = spelt(name);
  refuse_other_processor(app, usual);
  KnownOption known = known_among(own_names(app), usual);
  if (!known.name.empty()) return known;
  refuse_foreign(app, usual);
  refuse_gone(app, usual);
  return known;
}

std::string known_name(const CLI::App& app, std::string_view name) {
  return known_option(app, name).name;
}

[[noreturn]] void refuse_option(const CLI::App& app, const std::string& word) {
  throw Error(ErrorCode::kInvalidArgument, "unknown option " + printable(word) +
                                               did_you_mean(word, long_names(app)) + " (see " +
                                               app.get_name() + " --help)");
}

/// Of "-5", "-.5", "-inf": they are no options.
bool is_plain_number(const std::string& word) {
  char* end = nullptr;
  static_cast<void>(std::strtod(word.c_str(), &end));
  return !word.empty() && end == word.c_str() + word.size();
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
  if (word.size() < 2 || word[0] != '-' || is_plain_number(word)) return word;
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

/// Other tools take the values of a list as words of their own; here a second one would be a
/// shard's name. `words`: the option as it was given, and what follows.
void check_one_list(const CLI::App& app, const std::string& known,
                    std::span<const std::string> words) {
  const bool takes_list = app.get_option(known)->get_type_name().starts_with("[");
  if (!takes_list || words.size() < 3 || !is_plain_number(words[1]) || !is_plain_number(words[2]))
    return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{0} {1} {2}: several values are one list, without spaces: {0} {1},{2}",
                          words[0], words[1], words[2]));
}

}  // namespace

KnownOption option_called(const CLI::App& app, std::string_view name) {
  KnownOption known = known_option(app, name);
  if (known.name.empty()) refuse_option(app, "--" + std::string(name));
  return known;
}

std::string option_name(const CLI::App& app, std::string_view name) {
  return option_called(app, name).name;
}

std::string known_option_name(const CLI::App& app, std::string_view name) {
  return known_among(own_names(app), spelt(name)).name;
}

bool is_gone(std::string_view name) {
  return std::ranges::find(gone_options(), name, &GoneOption::name) != gone_options().end();
}

std::string alias_help(const CLI::App& app) {
  std::string text;
  const auto add = [&](std::string_view name, const std::string& is) {
    text += help_entry("--" + std::string(name), is);
  };
  const std::vector<std::string> own = own_names(app);
  const auto forms = short_forms(own);
  for (const auto& [name, field] : forms) add(name, "--" + field);
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string& name = option->get_lnames().front();
    if (option->get_positional()) add(name, option->get_name(true) + "...");
    if (option->get_group() == kHiddenGroup && name.find('.') == std::string::npos)
      add(name, option->get_description());
  }
  for (const OptionAlias& alias : option_aliases()) {
    const std::string name(alias.name);
    if (has(app, name) || forms.contains(name)) continue;
    const KnownOption known = known_among(own, name);
    if (known.name.empty() || !(known.name == alias.known)) continue;
    add(name, "--" + known.name +
                  (!known.value.empty()  ? fmt::format(" '{}'", known.value)
                   : !known.unit.empty() ? fmt::format(" N{}", known.unit)
                                         : ""));
  }
  for (const auto& [name, option, said] : foreign_options())
    if (has(app, std::string(option)) && known_among(own, std::string(name)).name.empty())
      add(name, std::string(said));
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
    if (missing) throw Error(ErrorCode::kInvalidArgument, words[i] + " needs a value");
    ++i;
    check_one_list(app, known.back(), words.subspan(i - 1));
    known.push_back(with_unit(app, words[i - 1], words[i]));
  }
  return known;
}

}  // namespace millrace::tools

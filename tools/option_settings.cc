#include "tools/option_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/byte_source.h"
#include "io/opener.h"
#include "tools/help.h"
#include "tools/option_mark.h"
#include "tools/shard_lists.h"
#include "trainer/checkpoint.h"
#include "wds/printable_spec.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMayChange = "scope:start";
constexpr const char* kMeasures = "measures";
constexpr const char* kOfThisStart = "scope:call";
constexpr const char* kOwnOfProcess = "scope:process";
constexpr const char* kNamesContents = "names-contents";
constexpr const char* kFromFile = "from-file";
constexpr const char* kComponent = "component";
constexpr const char* kComponentField = "component-field";

trainer::SettingScope scope_of(CLI::Option& option) {
  if (is_marked(option, kOwnOfProcess)) return trainer::SettingScope::kProcess;
  if (is_marked(option, kOfThisStart)) return trainer::SettingScope::kCall;
  if (is_marked(option, kMayChange)) return trainer::SettingScope::kStart;
  return trainer::SettingScope::kRun;
}

bool takes_no_value(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

bool takes_several(const CLI::Option& option) { return option.get_expected_max() > 1; }

/// All of `word` as a number.
template <typename Number>
std::optional<Number> number_in_word(const std::string& word) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return {};
  return value;
}

bool is_number(const std::string& word) { return number_in_word<double>(word).has_value(); }

/// "[a,b]", as CLI11 writes a list.
std::vector<std::string> split_list(std::string text) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  std::vector<std::string> items;
  if (!text.empty()) items = CLI::detail::split(text, ',');
  return items;
}

/// The variable's present value, if there is one.
std::string current_text(CLI::Option& option) {
  const std::string given = option.get_default_str();
  option.capture_default_str();
  std::string now = option.get_default_str();
  option.default_str(given);
  return now;
}

std::vector<std::string> flag_value(const CLI::Option& option) {
  return {option.count() > 0 && option.as<bool>() ? "true" : "false"};
}

/// CLI11 writes numbers with six digits: a number that was given keeps its own.
std::vector<std::string> value_words(CLI::Option& option) {
  if (takes_no_value(option)) return flag_value(option);
  const std::string given = option.get_default_str();
  const std::string now = current_text(option);
  const bool is_own = option.count() > 0 && (now == given || now.empty());
  const auto& words = option.results();
  if (takes_several(option)) return is_own ? words : split_list(now);
  if (is_own && (now.empty() || is_number(words.back()))) return {words.back()};
  return now.empty() ? std::vector<std::string>() : std::vector<std::string>{now};
}

void hash_file(const std::string& path, Sha256& hash) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  const auto source = io::UrlOpener().open(path);
  std::vector<std::byte> piece(kPiece);
  while (const std::size_t size = source->read(piece)) hash.update(std::span(piece).first(size));
}

/// Of a file, or of a checkpoint's manifest, which has its files' digests. Empty if it cannot be
/// read here: whoever needs it reports that.
std::string contents_digest(const std::string& path) {
  try {
    if (path.empty() || io::is_network_url(path) || !fs::exists(path)) return {};
    Sha256 hash;
    hash_file(
        fs::is_directory(path) ? trainer::find_checkpoint(path, "best") + "/manifest.json" : path,
        hash);
    return hash.hex();
  } catch (const Error&) {
    return {};
  } catch (const fs::filesystem_error&) {
    return {};
  }
}

bool is_of_program(const CLI::Option& option) {
  return option.get_group() == kGeneralGroup || !option.get_configurable();
}

std::string setting_name(const CLI::Option& option) {
  return option.get_lnames().empty() ? option.get_single_name()
                                     : "--" + option.get_lnames().front();
}

bool excludes_given(const CLI::Option& option) {
  const auto& excluded = option.get_excludes();
  return option.count() == 0 &&
         std::ranges::any_of(excluded, [](const CLI::Option* one) { return one->count() > 0; });
}

/// A number where its text can be had back from it.
nlohmann::ordered_json json_value(const CLI::Option& option, const std::string& word) {
  if (takes_no_value(option)) return word == "true";
  const auto natural = number_in_word<std::uint64_t>(word);
  if (natural && std::to_string(*natural) == word) return *natural;
  const auto integer = number_in_word<std::int64_t>(word);
  if (integer && std::to_string(*integer) == word) return *integer;
  const auto real = number_in_word<double>(word);
  if (real && std::isfinite(*real) && word.find_first_of(".e") != std::string::npos) return *real;
  return word;
}

}  // namespace

CLI::Validator may_change() { return mark(kMayChange); }
CLI::Validator measures() { return mark(kMeasures); }
CLI::Validator of_this_start() { return mark(kOfThisStart); }
CLI::Validator own_of_process() { return mark(kOwnOfProcess); }
CLI::Validator names_contents() { return mark(kNamesContents); }
CLI::Validator from_file() { return mark(kFromFile); }
bool is_from_file(CLI::Option& option) { return is_marked(option, kFromFile); }
CLI::Validator of_component(ComponentPart part) {
  return mark(part == ComponentPart::kWord ? kComponent : kComponentField);
}

void note_given_values(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) option->capture_default_str();
}

std::vector<std::string> values_of(CLI::Option& option) {
  std::vector<std::string> words = value_words(option);
  for (std::string& word : words) word = wds::printable_spec(word);
  return words;
}

bool is_part_of_run(CLI::Option& option) {
  return !is_of_program(option) && scope_of(option) != trainer::SettingScope::kCall;
}

std::vector<trainer::Setting> settings_of(CLI::App& app) {
  std::vector<trainer::Setting> settings;
  for (CLI::Option* option : app.get_options()) {
    if (is_of_program(*option)) continue;
    auto words = values_of(*option);
    if (words.empty() && is_marked(*option, kComponentField)) continue;
    if (is_marked(*option, kComponent))
      for (std::string& word : words) word.resize(std::min(word.find('('), word.size()));
    const bool names_file = is_marked(*option, kNamesContents) && words.size() == 1;
    settings.push_back({.name = setting_name(*option),
                        .value = fmt::format("{}", fmt::join(words, ",")),
                        .scope = scope_of(*option),
                        .is_given = option->count() > 0,
                        .digest = names_file ? contents_digest(words.front()) : "",
                        .measures = is_marked(*option, kMeasures)});
  }
  return settings;
}

nlohmann::ordered_json options_json(CLI::App& app) {
  auto json = nlohmann::ordered_json::object();
  for (CLI::Option* option : app.get_options()) {
    if (is_of_program(*option) || option->get_lnames().empty() || excludes_given(*option) ||
        is_marked(*option, kComponentField))
      continue;
    const auto words = values_of(*option);
    auto values = nlohmann::ordered_json::array();
    for (const std::string& word : words) values.push_back(json_value(*option, word));
    if (values.empty()) continue;
    json[option->get_lnames().front()] = takes_several(*option) ? values : values.front();
  }
  return json;
}

std::vector<CLI::Option*> added_options(CLI::App& app, const std::function<void()>& declare) {
  const std::size_t before = app.get_options().size();
  declare();
  const auto all = app.get_options();
  return {all.begin() + static_cast<std::ptrdiff_t>(before), all.end()};
}

void refuse_given(const std::vector<CLI::Option*>& options, std::string_view reader) {
  for (CLI::Option* option : options)
    if (option->count() > 0 && !is_from_file(*option))
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} is for {}", setting_name(*option), reader));
}

}  // namespace millrace::tools

#include "tools/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/suggest.h"
#include "io/base/text.h"
#include "io/opener.h"
#include "tools/help.h"
#include "tools/option_names.h"
#include "tools/option_settings.h"
#include "tools/toml.h"
#include "tools/usage_text.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

/// Folders of recipes, relative to the program's: installed, and in a build tree at any depth.
std::vector<fs::path> recipe_folders() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  fs::path folder = program.parent_path();
  std::vector<fs::path> folders = {folder / MILLRACE_RECIPES_FROM_BIN};
  for (int up = 0; up < 4; ++up, folder = folder.parent_path())
    folders.push_back(folder / "tools" / "recipes");
  return folders;
}

/// The recipe's path; empty if there is none of that name.
std::string find_recipe(const std::string& name) {
  if (name.find('/') != std::string::npos) return {};
  for (const fs::path& folder : recipe_folders()) {
    const fs::path path = folder / (name + (name.ends_with(".toml") ? "" : ".toml"));
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) return path.lexically_normal().string();
  }
  return {};
}

/// Resolves a path, a run's folder or a recipe's name to a file's path.
std::string settle_path(std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) {
    const std::string folder = std::exchange(path, path + "/config.json");
    return fs::exists(path, ignored)
               ? std::string()
               : printable(folder) + " is a folder without a run's config.json";
  }
  if (fs::exists(status)) return {};
  if (std::string recipe = find_recipe(path); !recipe.empty()) {
    path = std::move(recipe);
    return {};
  }
  const auto names = recipe_names();
  return fmt::format("no file {}, nor a recipe of that name{}", printable(io::printable_url(path)),
                     did_you_mean(path, names));
}

void give(CLI::Option& option, const TomlEntry& entry, const std::string& name) {
  if (option.get_items_expected_max() == 0) {
    const std::string value = entry.values.size() == 1 ? entry.values.front() : "";
    require(value == "true" || value == "false", "--" + name + " is a flag: true or false");
    option.add_result(option.get_flag_value(name, value));
    return;
  }
  require(!entry.values.empty(), "--" + name + ": an empty array sets nothing");
  if (entry.array && option.get_items_expected_max() == 1)
    option.add_result(fmt::format("[{}]", fmt::join(entry.values, ",")));
  else
    option.add_result(entry.values);
  check_given(option);
  option.run_callback();
}

/// The options that a file sets, one entry at a time.
class FileTarget {
 public:
  FileTarget(CLI::App& app, const std::vector<std::string>& left_out, bool is_run)
      : app_(app), left_out_(left_out), is_run_(is_run) {
    for (const CLI::Option* option : app.get_options())
      if (!option->empty()) on_command_line_.insert(option);
  }

  void take(const TomlEntry& entry) {
    if (is_run_ && is_gone(entry.key)) return;
    const KnownOption known = option_called(app_, entry.key);
    if (!known.value.empty() && entry.values == std::vector<std::string>{"false"}) return;
    CLI::Option& option = *app_.get_option("--" + known.name);
    const std::string& name = option.get_lnames().front();
    require(option.get_configurable(), "--" + name + " is for the command line only");
    if (is_run_ && (is_default(option, entry) || is_off(entry, known))) return;
    check_once(name, entry);
    if (is_decided(option) || (is_run_ && !is_part_of_run(option))) return;
    give(option, valued(entry, known), name);
    option.check(from_file());
  }

 private:
  /// The reader refuses a key that is set twice: here it has two names.
  void check_once(const std::string& name, const TomlEntry& entry) {
    const auto [first, fresh] = keys_.emplace(name, &entry);
    if (fresh) return;
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} is another name of {}, which is set on line {} too", printable(entry.key),
                    printable(first->second->key), first->second->line));
  }

  /// By the command line, which gives it, undoes it, or gives what it excludes.
  bool is_decided(const CLI::Option& option) const {
    const auto is_there = [&](const CLI::Option* one) { return on_command_line_.contains(one); };
    const auto& names = option.get_lnames();
    return is_there(&option) ||
           std::ranges::any_of(
               left_out_,
               [&](const std::string& one) { return std::ranges::count(names, one) > 0; }) ||
           std::ranges::any_of(option.get_excludes(), is_there);
  }

  /// A flag that stands for a value has it where it is true.
  static TomlEntry valued(TomlEntry entry, const KnownOption& known) {
    if (!known.value.empty()) {
      require(entry.values == std::vector<std::string>{"true"},
              printable(entry.key) + " is a flag: true, or leave it out");
      entry.values = {known.value};
    }
    for (std::string& value : entry.values) value = known.valued(value);
    return entry;
  }

  /// The 0 of what was an option of its own, as --workers beside --streams: it leaves all to the
  /// other one.
  static bool is_off(const TomlEntry& entry, const KnownOption& known) {
    return !known.unit.empty() && entry.values == std::vector<std::string>{"0"};
  }

  static bool is_default(const CLI::Option& option, const TomlEntry& entry) {
    std::string value = option.get_default_str();
    if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
    const std::string text = fmt::format("{}", fmt::join(entry.values, ","));
    return text == value || (option.get_items_expected_max() == 0 && text == "false");
  }

  CLI::App& app_;
  const std::vector<std::string>& left_out_;
  bool is_run_;
  std::set<const CLI::Option*> on_command_line_ = {};
  std::map<std::string, const TomlEntry*> keys_ = {};
};

/// The options of a run's config.json.
std::vector<TomlEntry> read_run_config(std::istream& input, const std::string& path) {
  std::string text(kMaxTomlBytes + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(input.gcount()));
  const auto word = [](const nlohmann::ordered_json& value) {
    require(value.is_primitive() && !value.is_null(), "a value that no option has");
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  const auto json = parse_json<nlohmann::ordered_json>(text, path, {.bytes = kMaxTomlBytes});
  require(json.is_object() && json.contains("options") && json.at("options").is_object(),
          path + " is not the config.json of a run: it has no \"options\"");
  std::vector<TomlEntry> entries;
  for (const auto& [key, value] : json.at("options").items()) {
    TomlEntry entry{.key = key, .array = value.is_array()};
    if (value.is_array())
      std::ranges::transform(value, std::back_inserter(entry.values), word);
    else
      entry.values = {word(value)};
    entries.push_back(std::move(entry));
  }
  join_values([&](std::string_view name) -> std::string* {
    const auto found = std::ranges::find(entries, name, &TomlEntry::key);
    return found == entries.end() || found->values.empty() ? nullptr : &found->values.front();
  });
  return entries;
}

}  // namespace

std::vector<CLI::ConfigItem> ConfigFile::from_config(std::istream& input) const {
  const auto path = app_.get_config_ptr()->as<std::string>();
  const bool is_run = path.ends_with(".json");
  FileTarget target(app_, left_out_, is_run);
  const auto entries = is_run ? read_run_config(input, path) : read_toml(input, path);
  for (const TomlEntry& entry : entries) {
    const std::string place = is_run ? path + ": " : fmt::format("{}:{}: ", path, entry.line);
    try {
      target.take(entry);
    } catch (const CLI::ParseError& error) {
      throw Error(ErrorCode::kInvalidArgument, place + usage_text(error));
    } catch (const Error& error) {
      throw Error(ErrorCode::kInvalidArgument, place + error.message());
    }
  }
  return {};
}

void leave_out(const CLI::App& app, std::vector<std::string> names) {
  if (const auto file = std::dynamic_pointer_cast<ConfigFile>(app.get_config_formatter()))
    file->leave_out(std::move(names));
}

void use_config_file(CLI::App& app) {
  app.config_formatter(std::make_shared<ConfigFile>(app));
  app.set_config("--config", "",
                 "TOML file with defaults for these options, a recipe's name, or a run's folder; "
                 "--no-NAME leaves out what it says of an option without a default")
      ->transform(CLI::Validator(settle_path, ""))
      ->type_name("FILE.toml")
      ->group(kGeneralGroup);
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::path& folder : recipe_folders()) {
    for (const auto& file : fs::directory_iterator(folder, ignored))
      if (file.path().extension() == ".toml") names.push_back(file.path().stem().string());
    if (!names.empty()) break;
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace::tools

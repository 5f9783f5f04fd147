#include "tools/config_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/help.h"
#include "tools/option_names.h"
#include "tools/suggest.h"
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

/// Resolves a path or a recipe's name to a path.
std::string settle_path(std::string& path) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) return printable(path) + " is a folder";
  if (fs::exists(status)) return {};
  if (std::string recipe = find_recipe(path); !recipe.empty()) {
    path = std::move(recipe);
    return {};
  }
  const auto names = recipe_names();
  return fmt::format("no file {}, nor a recipe of that name{}", printable(path),
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

}  // namespace

std::vector<CLI::ConfigItem> ConfigFile::from_config(std::istream& input) const {
  const auto path = app_.get_config_ptr()->as<std::string>();
  for (const TomlEntry& entry : read_toml(input, path)) {
    const std::string place = fmt::format("{}:{}: ", path, entry.line);
    try {
      const std::string name = option_name(app_, entry.key);
      CLI::Option& option = *app_.get_option("--" + name);
      require(option.get_configurable(), "--" + name + " is for the command line only");
      if (option.empty()) give(option, entry, name);
    } catch (const CLI::ParseError& error) {
      throw Error(ErrorCode::kInvalidArgument, place + usage_text(error));
    } catch (const Error& error) {
      throw Error(ErrorCode::kInvalidArgument, place + error.message());
    }
  }
  return {};
}

void use_config_file(CLI::App& app) {
  app.config_formatter(std::make_shared<ConfigFile>(app));
  app.set_config("--config", "", "TOML file with defaults for these options, or a recipe's name")
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

#include "tools/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <vector>

namespace millrace::tools {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kTextColumn = 28;

using Options = std::vector<const CLI::Option*>;

/// "TEXT:{sgd,adam}": the kind of the value and the names allowed.
struct ValueType {
  std::string kind;
  std::vector<std::string> names;
};

ValueType value_type(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const std::size_t colon = std::min(text.find(":{"), text.size());
  ValueType type{.kind = text.substr(0, colon), .names = {}};
  if (colon < text.size())
    type.names = CLI::detail::split(text.substr(colon + 2, text.size() - colon - 3), ',');
  if (type.kind == "INT" || type.kind == "UINT") type.kind = "N";
  if (type.kind == "FLOAT") type.kind = "X";
  if (type.kind == "TEXT" && !type.names.empty()) type.kind = "NAME";
  return type;
}

bool repeats(const CLI::Option& option) {
  return option.get_expected_max() >= CLI::detail::expected_max_vector_size;
}

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

std::string value_text(const CLI::Option& option) {
  if (is_flag(option)) return {};
  const std::string kind = value_type(option).kind;
  // "IMAGES LABELS" already shows how many there are.
  const bool pair = option.get_expected_max() == 2 && kind.find(' ') == std::string::npos;
  return " " + (pair ? kind + "," + kind : repeats(option) ? kind + "..." : kind);
}

std::string names_text(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The default, unless it is empty or given in brackets in the description.
std::string default_text(const CLI::Option& option) {
  std::string text = option.get_default_str();
  const bool nothing = is_flag(option) || text.empty() || text == "[]" || text == "\"\"";
  if (nothing || option.get_description().find('[') != std::string::npos) return {};
  if (text.front() == '[') text = text.substr(1, text.size() - 2);
  return " [" + text + "]";
}

bool tells(const std::string& description, const std::vector<std::string>& names) {
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return description.find(name) != std::string::npos;
  });
}

std::string description(const CLI::Option& option) {
  std::string text = option.get_description();
  if (const auto names = value_type(option).names; !tells(text, names))
    text.insert(std::min(text.find(" ["), text.size()),
                fmt::format(": {}", fmt::join(names, ", ")));
  for (const CLI::Option* other : option.get_needs())
    text += fmt::format(" (with {})", other->get_name());
  text += default_text(option);
  return option.get_required() ? text + " (required)" : text;
}

/// `text` starting at a column, wrapped between words.
std::string wrapped(const std::string& text, std::size_t column) {
  std::istringstream words(text);
  std::string lines;
  std::size_t at = column;
  for (std::string word; words >> word; at += word.size()) {
    const bool first = at == column;
    if (!first && at + 1 + word.size() > kColumns) {
      lines += "\n" + std::string(column, ' ');
      at = column;
    } else if (!first) {
      lines += ' ';
      ++at;
    }
    lines += word;
  }
  return lines;
}

std::string entry(const std::string& left, const std::string& text) {
  std::string line = std::string(kIndent, ' ') + left;
  if (line.size() + kIndent > kTextColumn && !text.empty())
    line += "\n" + std::string(kTextColumn, ' ');
  else
    line.resize(std::max(line.size(), kTextColumn), ' ');
  return line + wrapped(text, kTextColumn) + "\n";
}

std::string positional_name(const CLI::Option& option) {
  return option.get_name(true, false) + (repeats(option) ? "..." : "");
}

std::string usage(const std::string& name, const Options& positionals) {
  std::string text = "Usage: " + name;
  for (const CLI::Option* option : positionals) {
    const std::string one = positional_name(*option);
    text += option->get_required() ? " " + one : " [" + one + "]";
  }
  return text + " [options]\n";
}

std::string arguments(const Options& positionals) {
  std::string text;
  for (const CLI::Option* option : positionals)
    text += entry(positional_name(*option), description(*option));
  return text.empty() ? text : "\nArguments:\n" + text;
}

std::string section(const CLI::App& app, const std::string& group) {
  std::string text;
  for (const CLI::Option* option : app.get_options())
    if (option->get_group() == group && option->nonpositional())
      text += entry(names_text(*option) + value_text(*option),
                    option->get_positional() ? "The same as " + positional_name(*option)
                                             : description(*option));
  return text.empty() ? text : "\n" + group + ":\n" + text;
}

}  // namespace

std::string HelpText::make_help(const CLI::App* app, std::string name,
                                CLI::AppFormatMode /*mode*/) const {
  const Options positionals =
      app->get_options([](const CLI::Option* option) { return option->get_positional(); });
  std::string text = app->get_description() + "\n\n" + usage(name, positionals);
  text += arguments(positionals);
  std::vector<std::string> groups = app->get_groups();
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != kGeneralGroup; });
  for (const std::string& group : groups)
    if (!group.empty()) text += section(*app, group);
  return text + "\n" + app->get_footer() + (app->get_footer().ends_with('\n') ? "" : "\n");
}

}  // namespace millrace::tools

#include "tools/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>
#include <vector>

#include "io/base/wrap.h"
#include "tools/option_mark.h"

namespace millrace::tools {
namespace {

/// Lines.
constexpr std::ptrdiff_t kTwoScreens = 110;
constexpr const char* kInShortHelp = "short-help";

using Options = std::vector<const CLI::Option*>;

/// "TEXT:{sgd,adam}": the kind of the value and the names allowed.
struct ShownType {
  std::string kind;
  std::vector<std::string> names;
};

ShownType shown_type(const CLI::Option& option) {
  const std::string text = option.get_type_name();
  const std::size_t colon = std::min(text.find(":{"), text.size());
  ShownType type{.kind = text.substr(0, colon), .names = {}};
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
  const std::string kind = shown_type(option).kind;
  // "IMAGES LABELS" already shows how many there are.
  const bool pair = option.get_expected_max() == 2 && kind.find(' ') == std::string::npos;
  const bool shows_more = kind.ends_with("...");  // as "SUFFIX,..." does itself
  return " " + (pair ? kind + "," + kind : repeats(option) && !shows_more ? kind + "..." : kind);
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
  if (const auto names = shown_type(option).names; !tells(text, names))
    text.insert(std::min(text.find(" ["), text.size()),
                fmt::format(": {}", fmt::join(names, ", ")));
  for (const CLI::Option* other : option.get_needs())
    text += fmt::format(" (with {})", other->get_name());
  text += default_text(option);
  return option.get_required() ? text + " (required)" : text;
}

std::string positional_name(const CLI::Option& option) {
  return option.get_name(true, false) + (repeats(option) ? "..." : "");
}

/// "--checkpoint PATH", of those that a command cannot do without.
std::string required_options(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options())
    if (option->get_required() && !option->get_positional())
      text += " --" + option->get_lnames().front() + value_text(*option);
  return text;
}

std::string usage(const CLI::App& app, const Options& positionals) {
  std::string text = "Usage: " + app.get_name();
  for (const CLI::Option* option : positionals) {
    const std::string one = positional_name(*option);
    text += option->get_required() ? " " + one : " [" + one + "]";
  }
  return wrapped(text + required_options(app) + " [options]", 0, 6) + "\n";
}

std::string arguments(const Options& positionals) {
  std::string text;
  for (const CLI::Option* option : positionals)
    text += help_entry(positional_name(*option), description(*option));
  return text.empty() ? text : "\nArguments:\n" + text;
}

bool is_shown(const CLI::Option& option) {
  return option.get_group() != kHiddenGroup && !option.get_positional();
}

std::string option_entry(const CLI::Option& option) {
  return help_entry(names_text(option) + value_text(option), description(option));
}

bool is_in_short_help(const CLI::Option& option) {
  return option.get_group() == kGeneralGroup || option.get_required() ||
         is_marked(option, kInShortHelp);
}

std::string help_section(const CLI::App& app, const std::string& group, bool in_short) {
  std::string text;
  for (const CLI::Option* option : app.get_options())
    if (option->get_group() == group && is_shown(*option) &&
        (!in_short || is_in_short_help(*option)))
      text += option_entry(*option);
  return text.empty() ? text : "\n" + group + ":\n" + text;
}

/// The headings, the general one last.
std::vector<std::string> headings(const CLI::App& app) {
  std::vector<std::string> groups = app.get_groups();
  std::stable_partition(groups.begin(), groups.end(),
                        [](const std::string& group) { return group != kGeneralGroup; });
  std::erase(groups, kHiddenGroup);
  return groups;
}

/// "Devices and threads" as "devices".
std::string topic_of(std::string_view heading) {
  std::string topic(heading.substr(0, heading.find_first_of(" ,")));
  topic.front() = static_cast<char>(std::tolower(static_cast<unsigned char>(topic.front())));
  return topic;
}

/// Where to read on.
std::string more(const CLI::App& app) {
  return "\n" +
         wrapped(fmt::format("All options: {0} --help all. Those of one part: {0} --help TOPIC, "
                             "which is {1}. One alone: --help batch-size.",
                             app.get_name(), fmt::join(help_topics(app), ", ")),
                 0, 0) +
         "\n";
}

/// The words of a command line, with their quotes; what is before the first one is none.
std::vector<std::string> shell_words(std::string_view line) {
  std::vector<std::string> words;
  bool quoted = false;
  bool within = false;
  for (const char c : line) {
    if (c == '\'') quoted = !quoted;
    const bool ends = c == ' ' && !quoted;
    if (!ends && !within) words.emplace_back();
    if (!ends) words.back() += c;
    within = !ends;
  }
  return words;
}

/// An option stays with its value: "--top 5".
std::vector<std::string> words_with_values(std::string_view line) {
  std::vector<std::string> all;
  bool takes_value = false;
  for (const std::string& word : shell_words(line)) {
    const bool is_option = word.starts_with('-') && word != "-";
    if (takes_value && !is_option)
      all.back() += " " + word;
    else
      all.push_back(word);
    takes_value = is_option && word.find('=') == std::string::npos;
  }
  return all;
}

std::string wrapped_command(const std::string& line) {
  constexpr const char* kContinued = "      ";
  const std::size_t columns = text_columns();
  if (line.size() <= columns) return line;
  std::string lines;
  std::string now(line.substr(0, line.find_first_not_of(' ')));
  bool has_words = false;
  for (const std::string& word : words_with_values(line)) {
    // " \\" may follow.
    if (has_words && now.size() + 1 + word.size() + 2 > columns) {
      lines += now + " \\\n";
      now = kContinued;
      has_words = false;
    }
    now += (has_words ? " " : "") + word;
    has_words = true;
  }
  return lines + now;
}

std::string help_text(const CLI::App& app, bool in_short) {
  const Options positionals =
      app.get_options([](const CLI::Option* option) { return option->get_positional(); });
  std::string text = wrapped(app.get_description(), 0, 0) + "\n\n" + usage(app, positionals);
  text += arguments(positionals);
  for (const std::string& heading : headings(app)) text += help_section(app, heading, in_short);
  if (in_short) text += more(app);
  return text + "\n" + app.get_footer() + (app.get_footer().ends_with('\n') ? "" : "\n");
}

}  // namespace

CLI::Validator in_short_help() { return mark(kInShortHelp); }

std::vector<std::string> help_topics(const CLI::App& app) {
  std::vector<std::string> topics;
  for (const std::string& heading : headings(app)) topics.push_back(topic_of(heading));
  return topics;
}

std::string option_help(const CLI::App& app, const std::string& topic) {
  if (topic == "all") return help_text(app, false);
  for (const std::string& heading : headings(app))
    if (topic_of(heading) == topic) return help_section(app, heading, false).substr(1);
  const CLI::Option* option = app.get_option_no_throw("--" + topic);
  return option == nullptr || option->get_positional() ? std::string() : option_entry(*option);
}

std::vector<ShownOption> shown_options(const CLI::App& app) {
  std::vector<ShownOption> shown;
  const auto add = [&](const CLI::Option& option) {
    ShownType type = shown_type(option);
    ShownOption one{.choices = std::move(type.names),
                    .text = description(option),
                    .heading = option.get_positional() ? "" : option.get_group(),
                    .is_argument = option.get_positional()};
    if (!is_flag(option)) one.kind = type.kind;
    for (const std::string& name : option.get_snames()) one.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) one.names.push_back("--" + name);
    if (one.is_argument) one.names = {option.get_name(true, false)};
    const std::string value = one.is_argument ? "" : value_text(option);
    one.value = one.is_argument ? positional_name(option)
                                : value.substr(std::min<std::size_t>(1, value.size()));
    shown.push_back(std::move(one));
  };
  std::vector<std::string> groups = headings(app);
  groups.emplace_back(kHiddenGroup);
  for (const CLI::Option* option : app.get_options())
    if (option->get_positional()) add(*option);
  for (const std::string& group : groups)
    for (const CLI::Option* option : app.get_options())
      if (!option->get_positional() && option->get_group() == group) add(*option);
  return shown;
}

std::string wrapped_example(const std::string& example) {
  std::istringstream lines(example);
  std::string text;
  std::string sentences;
  const auto end_paragraph = [&] {
    if (!sentences.empty()) text += wrapped(sentences, 0, 0) + "\n";
    sentences.clear();
  };
  for (std::string line; std::getline(lines, line);) {
    const bool is_prose = !line.empty() && line.front() != ' ';
    if (is_prose)
      sentences += line + " ";
    else
      end_paragraph();
    if (!is_prose) text += wrapped_command(line) + "\n";
  }
  end_paragraph();
  return text;
}

const Table* table_of(const ShownOption& option, std::span<const Table* const> tables) {
  if (option.kind != "CALL" && option.kind != "CALLS") return nullptr;
  const auto found = std::ranges::find_if(tables, [&](const Table* table) {
    return option.kind == "CALLS" ? table->kind() == "transform" : table->words() == option.choices;
  });
  return found == tables.end() ? nullptr : *found;
}

std::string HelpText::make_help(const CLI::App* app, std::string /*name*/,
                                CLI::AppFormatMode /*mode*/) const {
  std::string whole = help_text(*app, false);
  const bool is_long = std::ranges::count(whole, '\n') > kTwoScreens;
  return is_long ? help_text(*app, true) : whole;
}

}  // namespace millrace::tools

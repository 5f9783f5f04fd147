#include "tools/completion/complete.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "io/base/suggest.h"
#include "io/component/component_text.h"
#include "tools/config_file.h"
#include "tools/help.h"
#include "tools/option_names.h"
#include "tools/program.h"

namespace millrace::tools {
namespace {

/// Values that are, or begin as, names of files.
bool is_of_files(const std::string& kind) {
  constexpr std::array<std::string_view, 7> kKinds = {"SPEC",    "FILE", "DIR",   "PATH",
                                                      "PATTERN", "RUN",  "IMAGES"};
  return std::ranges::any_of(
      kKinds, [&](std::string_view one) { return kind.find(one) != std::string::npos; });
}

/// Up to its first stop.
std::string first_sentence(const std::string& text) {
  const std::size_t end = std::min({text.find(" ["), text.find(": "), text.find("; ")});
  return text.substr(0, std::min(end, text.size()));
}

/// Where in a text of calls its end stands.
struct CallPlace {
  std::string call = {};  ///< whose arguments are being typed; empty: none's, a call begins
  std::size_t from = 0;   ///< of the argument, or of the call
  std::vector<std::string> given = {};  ///< names of the call's arguments before it
};

std::string word_before(std::string_view text, std::size_t end) {
  std::size_t begin = end;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 ||
                       text[begin - 1] == '_' || text[begin - 1] == '-'))
    --begin;
  return std::string(text.substr(begin, end - begin));
}

CallPlace call_place(std::string_view text) {
  std::vector<CallPlace> open(1);
  const auto begin = [&](std::size_t at) {
    while (at < text.size() && text[at] == ' ') ++at;
    open.back().from = at;
  };
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '(' || c == '[') {
      open.push_back({.call = c == '(' ? word_before(text, at) : open.back().call});
      begin(at + 1);
    } else if ((c == ')' || c == ']') && open.size() > 1) {
      open.pop_back();
    } else if (c == ',') {
      const std::string_view argument = text.substr(open.back().from, at - open.back().from);
      open.back().given.emplace_back(argument.substr(0, argument.find('=')));
      begin(at + 1);
    }
  }
  return open.back();
}

const Component* component_called(const std::string& word, std::span<const Table* const> tables) {
  for (const Table* table : tables)
    for (const Component& one : table->all())
      if (plain_name(one.type().name().word) == plain_name(word)) return &one;
  return nullptr;
}

/// "nearest|bilinear" as its words; empty for values that are no words.
std::vector<std::string> words_of(const Field& field) {
  const std::string shown = field.type->shown();
  if (shown.empty()) return {"true", "false"};
  const bool is_words =
      shown.find('|') != std::string::npos &&
      std::ranges::none_of(shown, [](unsigned char c) { return std::isupper(c) != 0; });
  return is_words ? CLI::detail::split(shown, '|') : std::vector<std::string>();
}

void add_calls(Completion& to, const std::string& before, const Table& table) {
  for (const Component& one : table.all())
    to.candidates.push_back({.word = before + std::string(one.type().name().word),
                             .about = std::string(one.type().name().sentence)});
}

void add_field_names(Completion& to, const std::string& before, const CallPlace& place,
                     const Component& component) {
  for (const Field& field : component.type().fields(component.value())) {
    if (std::ranges::find(place.given, field.name) != place.given.end()) continue;
    const bool is_bool = field.type->shown().empty();
    const Written usual = field.type->write(field.value, ValueType::Form::kShortest);
    to.candidates.push_back(
        {.word = before + std::string(field.name) + (is_bool ? "" : "="),
         .about = std::string(field.sentence),
         .goes_on = !is_bool,
         .usual = is_bool || usual.kind == Written::Kind::kNone ? "" : text(usual)});
  }
}

void add_words(Completion& to, const std::string& before, const std::vector<std::string>& words) {
  for (const std::string& word : words) to.candidates.push_back({.word = before + word});
}

/// `before` stands in the word before the calls' text.
void add_call_text(Completion& to, const std::string& before, const std::string& text,
                   const Table& table, std::span<const Table* const> tables) {
  const CallPlace place = call_place(text);
  const std::string all_before = before + text.substr(0, place.from);
  if (place.call.empty()) return add_calls(to, all_before, table);
  const Component* component = component_called(place.call, tables);
  if (component == nullptr) return;
  const std::string argument = text.substr(place.from);
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos) return add_field_names(to, all_before, place, *component);
  for (const Field& field : component->type().fields(component->value()))
    if (field.name == argument.substr(0, equals))
      add_words(to, all_before + argument.substr(0, equals + 1), words_of(field));
}

class CommandLine {
 public:
  /// `command` is borrowed.
  explicit CommandLine(Command& command) : tables_(command.tables()) {
    declare_options(app_, command, json_);
    shown_ = shown_options(app_);
  }

  /// `words`: after the command's.
  Completion complete(std::span<const std::string> words) const {
    const std::string& typed = words.back();
    const auto before = words.first(words.size() - 1);
    const bool all_arguments = std::ranges::find(before, "--") != before.end();
    if (!all_arguments && !before.empty() && (before.back() == "--help" || before.back() == "-h"))
      return topics();
    if (!all_arguments) {
      const std::size_t equals = typed.find('=');
      if (typed.starts_with("--") && equals != std::string::npos)
        if (const ShownOption* option = called(typed.substr(0, equals)))
          return values(*option, typed, equals + 1);
      if (typed.starts_with('-')) return options(typed);
      if (const ShownOption* option = open_option(before)) return values(*option, typed, 0);
    }
    return arguments(before, typed);
  }

  Completion topics() const {
    Completion found;
    std::vector<std::string> words = help_topics(app_);
    words.insert(words.begin(), {"all", "aliases"});
    for (const ShownOption& option : shown_)
      if (table_of(option, tables_) != nullptr) words.push_back(option.names.back().substr(2));
    add_words(found, "", words);
    for (const Table* table : tables_) add_calls(found, "", *table);
    return found;
  }

 private:
  const ShownOption* called(const std::string& word) const {
    const std::string own =
        word.starts_with("--") ? "--" + known_option_name(app_, word.substr(2)) : word;
    const auto found = std::ranges::find_if(shown_, [&](const ShownOption& option) {
      return std::ranges::find(option.names, own) != option.names.end();
    });
    return found == shown_.end() ? nullptr : &*found;
  }

  /// The option whose value comes next: the last word's, or one that takes several.
  const ShownOption* open_option(std::span<const std::string> before) const {
    for (std::size_t i = before.size(); i > 0; --i) {
      if (!before[i - 1].starts_with('-')) continue;
      const ShownOption* option = called(before[i - 1]);
      if (option == nullptr || option->kind.empty()) return nullptr;
      return i == before.size() || option->value.ends_with("...") ? option : nullptr;
    }
    return nullptr;
  }

  Completion values(const ShownOption& option, const std::string& typed, std::size_t from) const {
    Completion found;
    const std::string before = typed.substr(0, from);
    const bool is_config = std::ranges::find(option.names, "--config") != option.names.end();
    if (const Table* table = table_of(option, tables_))
      add_call_text(found, before, typed.substr(from), *table, tables_);
    else
      add_words(found, before, is_config ? recipe_names() : option.choices);
    found.files =
        is_of_files(option.kind) || (option.is_argument && is_of_files(option.names.front()));
    found.files_from = from;
    return found;
  }

  /// Components' own (--optimizer.momentum) once their option is typed.
  Completion options(const std::string& typed) const {
    Completion found;
    const bool wants_fields = typed.find('.') != std::string::npos;
    for (const ShownOption& option : shown_) {
      if (option.is_argument) continue;
      const std::string& name = option.names.back();
      const bool is_field = name.find('.') != std::string::npos;
      if (option.heading == kHiddenGroup && !(is_field && wants_fields)) continue;
      found.candidates.push_back({.word = name, .about = first_sentence(option.text)});
    }
    return found;
  }

  Completion arguments(std::span<const std::string> before, const std::string& typed) const {
    std::size_t place = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (!before[i].starts_with('-')) {
        ++place;
        continue;
      }
      const ShownOption* option = called(before[i]);
      if (option != nullptr && !option->kind.empty()) ++i;
    }
    const ShownOption* last = nullptr;
    for (const ShownOption& option : shown_) {
      if (!option.is_argument) break;
      last = &option;
      if (place-- == 0) break;
    }
    return last == nullptr ? Completion() : values(*last, typed, 0);
  }

  std::vector<const Table*> tables_;
  bool json_ = false;
  CLI::App app_;
  std::vector<ShownOption> shown_;
};

void keep_what_fits(Completion& completion, const std::string& typed) {
  std::erase_if(completion.candidates,
                [&](const Candidate& one) { return !one.word.starts_with(typed); });
}

Completion commands_for(std::span<const std::unique_ptr<Command>> commands, bool all) {
  Completion found;
  for (const auto& command : commands)
    found.candidates.push_back({.word = command->name(), .about = command->summary()});
  if (all)
    found.candidates.insert(found.candidates.end(),
                            {{.word = "help", .about = "A command's options, and an example"},
                             {.word = "version", .about = "The program's version"},
                             {.word = "--help"},
                             {.word = "--version"}});
  return found;
}

Completion complete_any(std::span<const std::string> words,
                        std::span<const std::unique_ptr<Command>> commands) {
  const bool help = words.size() > 1 && (words.front() == "help" || words.front() == "--help");
  if (words.size() == 1 || (help && words.size() == 2)) return commands_for(commands, !help);
  const auto found = std::ranges::find(commands, words[help ? 1 : 0],
                                       [](const auto& command) { return command->name(); });
  if (found == commands.end()) return {};
  const CommandLine line(**found);
  return help ? line.topics() : line.complete(words.subspan(1));
}

}  // namespace

Completion complete(std::span<const std::string> words,
                    std::span<const std::unique_ptr<Command>> commands) {
  if (words.empty()) return {};
  Completion found = complete_any(words, commands);
  keep_what_fits(found, words.back());
  return found;
}

}  // namespace millrace::tools

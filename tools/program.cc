#include "tools/program.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <sstream>
#include <utility>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/suggest.h"
#include "io/base/text.h"
#include "io/base/wrap.h"
#include "tools/component_list.h"
#include "tools/component_option.h"
#include "tools/config_file.h"
#include "tools/help.h"
#include "tools/option_names.h"
#include "tools/option_settings.h"
#include "tools/usage_text.h"
#include "tools/version.h"
#include "trainer/progress_bar.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxLine = 16384;

/// Prints the one line that a failed run leaves on standard error.
int complain(const std::string& who, const std::string& text, int status) {
  std::fputs(fmt::format("{}: {}\n", who, printable(text, kMaxLine)).c_str(), stderr);
  return status;
}

/// An Error's text; without its code's name for a usage error, where it would be redundant, and for
/// what another process ended.
std::string text_of(const Error& error) {
  const std::string code = std::string(error_code_name(error.code())) + ": ";
  std::string text = error.what();
  const bool is_plain =
      error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kCancelled;
  if (is_plain && text.starts_with(code)) text.erase(0, code.size());
  return text;
}

/// Other tools' names for our commands.
const std::map<std::string, std::string> kOtherCommands = {
    {"fit", "train"},      {"evaluate", "eval"},     {"test", "eval"},      {"score", "eval"},
    {"infer", "predict"},  {"inference", "predict"}, {"list", "ls"},        {"show", "view"},
    {"extract", "cat"},    {"benchmark", "bench"},   {"check", "verify"},   {"validate", "verify"},
    {"make", "create"},    {"pack", "create"},       {"convert", "create"}, {"write", "create"},
    {"repack", "reshard"}, {"shuffle", "reshard"},   {"split", "reshard"},  {"info", "stats"}};

std::string unknown_command(const std::string& name,
                            std::span<const std::unique_ptr<Command>> commands) {
  if (name.starts_with('-'))
    return "the command comes first, before " + printable(name) + " (see millrace --help)";
  std::vector<std::string> names = {"help", "version"};
  for (const auto& command : commands) names.push_back(command->name());
  const auto other = kOtherCommands.find(name);
  const std::string hint = other == kOtherCommands.end() ? did_you_mean(name, names)
                                                         : "; did you mean " + other->second + "?";
  return "no command " + printable(name) + hint + " (see millrace --help)";
}

std::string overview(std::span<const std::unique_ptr<Command>> commands) {
  constexpr std::size_t kColumn = 13;
  const auto paragraph = [](const std::string& text) { return wrapped(text, 0, 0) + "\n"; };
  std::string text = paragraph("millrace streams WebDataset shards into bf16 training") + "\n" +
                     wrapped("Usage: millrace COMMAND SPEC... [OPTIONS]", 0, 6) + "\n\nCommands:\n";
  for (const auto& command : commands)
    text +=
        fmt::format("  {:10} {}\n", command->name(), wrapped(command->summary(), kColumn, kColumn));
  return text + "\n" +
         paragraph(
             "SPEC names shards: a path or URL with braces (train-{000000..000639}.tar), "
             "several joined by ::, a folder, a .json manifest, or - for standard input.") +
         paragraph(
             "Exit status: 0 done, 1 a fault, 2 a usage error, 130, 138 or 143 "
             "interrupted.") +
         "\n  millrace help COMMAND    " +
         wrapped("options of a command, and an example", 2 * kColumn + 1, 2 * kColumn + 1) +
         "\n  millrace version\n";
}

/// What the program is asked for about itself.
int print_help(const std::string& text) {
  try {
    Output out(stdout);
    out.write(std::as_bytes(std::span(text)));
    out.flush();
    return kDone;
  } catch (const Output::Closed&) {
    return 128 + SIGPIPE;
  } catch (const Error& error) {
    return complain("millrace", text_of(error), kFault);
  }
}

void parse(CLI::App& app, std::span<const std::string> words) {
  std::vector<std::string> known = with_known_options(app, words);
  leave_out(app, take_undone(app, known));
  std::reverse(known.begin(), known.end());  // CLI11 takes the words in reverse order
  app.parse(std::move(known));
  for (const CLI::Option* option : app.get_options()) check_given(*option);
  note_given_values(app);
}

struct Failure {
  std::string text;
  int status = kFault;
};

Failure failure_of(const std::exception& thrown, const CommandContext& context) {
  const auto* error = dynamic_cast<const Error*>(&thrown);
  if (error == nullptr) return {fault_text(thrown)};
  if (error->code() == ErrorCode::kInvalidArgument) return {text_of(*error), kUsage};
  const int signal = context.signals->signal();
  if (error->code() == ErrorCode::kCancelled && signal != 0) return {"interrupted", 128 + signal};
  return {text_of(*error)};
}

int run_guarded(const std::string& who, Command& command, CommandContext& context) {
  context.report = [&](const std::exception& error) {
    if (context.terminal != nullptr) context.terminal->clear();
    if (std::exchange(context.says_failure, false))
      complain(who, failure_of(error, context).text, kFault);
  };
  try {
    command.run(context);
    context.out.flush();
    return kDone;
  } catch (const Output::Closed&) {
    return 128 + SIGPIPE;
  } catch (const std::exception& error) {
    context.report(error);
    return failure_of(error, context).status;
  }
}

/// The word after --help: a part of the help, an option, a component, or "aliases". Empty if there
/// is none.
std::string help_topic(std::span<const std::string> words) {
  const auto help = std::ranges::find_if(words, [](const std::string& word) {
    return word == "--help" || word == "-h" || word == "--";
  });
  if (help == words.end() || *help == "--" || help + 1 == words.end()) return {};
  return (help + 1)->starts_with('-') ? std::string() : *(help + 1);
}

std::string help_on(const std::string& topic, std::span<const Table* const> tables,
                    const CLI::App& app) {
  if (topic == "aliases") return alias_help(app);
  if (topic == "components") return component_list(tables);
  std::string text = option_help(app, topic);
  if (const std::string known = known_option_name(app, topic); text.empty() && !known.empty())
    text = option_help(app, known);
  std::string components = component_help(topic, tables);
  for (const ShownOption& option : shown_options(app))
    if (components.empty() && option.names.back() == "--" + topic)
      if (const Table* table = table_of(option, tables)) components = help(*table);
  if (!text.empty() && !components.empty()) text += "\n";
  return text + components;
}

int explain(const std::string& topic, const Command& command, const CLI::App& app) {
  const std::vector<const Table*> tables = command.tables();
  std::string text = help_on(topic, tables, app);
  if (text.empty() && tables.empty()) text = option_help(app, "all");  // a SPEC, most likely
  if (text.empty()) {
    std::vector<std::string> topics = help_topics(app);
    topics.insert(topics.begin(), {"all", "aliases"});
    for (const Table* table : tables) std::ranges::copy(table->words(), std::back_inserter(topics));
    return complain("millrace " + command.name(),
                    "no help on " + printable(topic) + or_names(topic, topics), kUsage);
  }
  return print_help(text);
}

int run_command(std::span<const std::string> words, Command& command, SignalStop& signals) {
  const std::string who = "millrace " + command.name();
  bool json = false;
  CLI::App app;
  declare_options(app, command, json);
  if (const std::string topic = help_topic(words); !topic.empty())
    return explain(topic, command, app);
  try {
    parse(app, words);
    command.check();
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    app.exit(asked, text, text);
    return print_help(text.str());
  } catch (const CLI::ParseError& error) {
    return complain(who, usage_text(error) + " (see " + who + " --help)", kUsage);
  } catch (const Error& error) {
    const bool is_fault = error.code() == ErrorCode::kExhausted || error.code() == ErrorCode::kIo;
    return complain(who, text_of(error), is_fault ? kFault : kUsage);
  }
  Output out(stdout);
  // Results that go to the same terminal would be mixed with it.
  trainer::TerminalLine terminal(stderr, !json || ::isatty(STDOUT_FILENO) == 0);
  if (::isatty(STDOUT_FILENO) == 1) out.before_writes([&] { terminal.clear(); });
  CommandContext context{.out = out,
                         .log = terminal.is_active() ? terminal.log() : Log::to_stderr(),
                         .stop = signals.token(),
                         .json = json,
                         .signals = &signals,
                         .terminal = terminal.is_active() ? &terminal : nullptr,
                         .options = &app};
  return run_guarded(who, command, context);
}

}  // namespace

void declare_options(CLI::App& app, Command& command, bool& json) {
  app.name("millrace " + command.name());
  app.description(command.summary());
  app.footer("Example:\n" + wrapped_example(command.example()));
  app.formatter(std::make_shared<HelpText>());
  app.set_help_flag("-h,--help", "Print this help and exit")->group(kGeneralGroup);
  app.set_version_flag("--version", version_text, "Print the version and exit")
      ->group(kGeneralGroup);
  use_config_file(app);
  app.add_flag("--json", json,
               "Write results to standard output as JSON lines, and text to standard error")
      ->group(kGeneralGroup);
  app.option_defaults()->always_capture_default();
  command.declare(app);
}

void parse_words(Command& command, CLI::App& app, std::span<const std::string> words) {
  bool json = false;
  declare_options(app, command, json);
  try {
    parse(app, words);
  } catch (const CLI::Success&) {
    throw;
  } catch (const CLI::ParseError& error) {
    throw Error(ErrorCode::kInvalidArgument, usage_text(error));
  }
}

int run_program(std::span<const std::string> words,
                std::span<const std::unique_ptr<Command>> commands, SignalStop& signals) {
  if (words.empty()) return complain("millrace", "which command? (see millrace --help)", kUsage);
  const std::string& name = words.front();
  const bool help = name == "--help" || name == "-h" || name == "help";
  if (help && words.size() > 1 && !words[1].starts_with('-')) {
    std::vector<std::string> asked = {words[1], "--help"};
    asked.insert(asked.end(), words.begin() + 2, words.end());
    return run_program(asked, commands, signals);
  }
  if (help) return print_help(overview(commands));
  if (name == "--version" || name == "-V" || name == "version")
    return print_help(version_text() + "\n");
  for (const auto& command : commands)
    if (command->name() == name) return run_command(words.subspan(1), *command, signals);
  return complain("millrace", unknown_command(name, commands), kUsage);
}

}  // namespace millrace::tools

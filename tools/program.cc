#include "tools/program.h"

#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <memory>
#include <new>

#include "io/base/error.h"
#include "tools/config_file.h"

namespace millrace::tools {
namespace {

/// The one line that a run that went wrong leaves on standard error.
int complain(const std::string& who, std::string text, int status) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::fputs(fmt::format("{}: {}\n", who, text).c_str(), stderr);
  return status;
}

/// An Error's text; a usage error goes without its code's name, which would only say it again.
std::string text_of(const Error& error) {
  const std::string code = std::string(error_code_name(error.code())) + ": ";
  std::string text = error.what();
  if (error.code() == ErrorCode::kInvalidArgument && text.starts_with(code))
    text.erase(0, code.size());
  return text;
}

std::string overview(std::span<const std::unique_ptr<Command>> commands) {
  std::string text =
      "millrace streams WebDataset shards into bf16 training\n\n"
      "Usage: millrace COMMAND SPEC... [OPTIONS]\n\nCommands:\n";
  for (const auto& command : commands)
    text += fmt::format("  {:10} {}\n", command->name(), command->summary());
  text +=
      "\nSPEC names shards: a path or URL with braces (train-{000000..000639}.tar), several "
      "joined\n"
      "by ::, a folder, a .json manifest, or - for standard input.\n"
      "Exit status: 0 done, 1 a fault, 2 a usage error, 130 or 143 interrupted.\n\n"
      "  millrace COMMAND --help    options of a command, and an example\n"
      "  millrace --version\n";
  return text;
}

/// What CLI11 found wrong, in our words where its own would puzzle.
std::string usage_text(const CLI::ParseError& error) {
  std::string text = error.what();
  if (const std::string puzzling = "INI was not able to parse "; text.starts_with(puzzling))
    return "unknown key in the configuration file: " + text.substr(puzzling.size());
  return text;
}

/// An option that no one declared is a better clue than what its place left missing.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::RequiredError))
    return usage_text(error);
  const std::vector<std::string> words = app.remaining();
  const auto unknown = std::find_if(words.begin(), words.end(),
                                    [](const std::string& word) { return word.starts_with('-'); });
  return unknown == words.end() ? usage_text(error) : "unknown option " + *unknown;
}

void declare(CLI::App& app, Command& command, bool& json) {
  app.name("millrace " + command.name());
  app.description(command.summary());
  app.footer("Example:\n" + command.example());
  app.set_version_flag("--version", "millrace " MILLRACE_VERSION);
  app.config_formatter(std::make_shared<ConfigFile>());
  app.set_config("--config", "", "TOML file with defaults for these options")
      ->type_name("FILE.toml");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_flag("--json", json,
               "Results as JSON lines on standard output, text for people on standard error");
  app.option_defaults()->always_capture_default();
  command.declare(app);
}

int interrupted(const SignalStop& signals, int otherwise) {
  return signals.signal() == 0 ? otherwise : 128 + signals.signal();
}

int run_guarded(const std::string& who, Command& command, Context& context,
                const SignalStop& signals) {
  try {
    command.run(context);
    context.out.flush();
    return kDone;
  } catch (const Output::Closed&) {
    return 128 + SIGPIPE;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInvalidArgument) return complain(who, text_of(error), kUsage);
    const bool cancelled = error.code() == ErrorCode::kCancelled;
    return complain(who, cancelled ? "interrupted" : text_of(error),
                    cancelled ? interrupted(signals, kFault) : kFault);
  } catch (const std::bad_alloc&) {
    return complain(who, "out of memory", kFault);
  } catch (const std::exception& error) {
    return complain(who, error.what(), kFault);
  }
}

int run_command(std::span<const std::string> words, Command& command, const SignalStop& signals) {
  const std::string who = "millrace " + command.name();
  bool json = false;
  CLI::App app;
  declare(app, command, json);
  try {
    // CLI11 takes the words from the back.
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    command.check();
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return complain(who, usage_text(app, error) + " (see " + who + " --help)", kUsage);
  } catch (const Error& error) {
    return complain(who, text_of(error), kUsage);
  }
  Output out(stdout);
  Context context{.out = out, .log = Log::to_stderr(), .stop = signals.token(), .json = json};
  return run_guarded(who, command, context, signals);
}

}  // namespace

int run_program(std::span<const std::string> words,
                std::span<const std::unique_ptr<Command>> commands, const SignalStop& signals) {
  if (words.empty()) return complain("millrace", "which command? (see millrace --help)", kUsage);
  const std::string& name = words.front();
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(overview(commands).c_str(), stdout);
    return kDone;
  }
  if (name == "--version") {
    std::puts("millrace " MILLRACE_VERSION);
    return kDone;
  }
  for (const auto& command : commands)
    if (command->name() == name) return run_command(words.subspan(1), *command, signals);
  return complain("millrace", fmt::format("no command '{}' (see millrace --help)", name), kUsage);
}

}  // namespace millrace::tools

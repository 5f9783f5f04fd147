// millrace man: the manual's pages, from what the commands declare.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error.h"
#include "io/base/suggest.h"
#include "io/base/text.h"
#include "io/component/component_text.h"
#include "tools/commands.h"
#include "tools/help.h"
#include "tools/network_options.h"
#include "tools/output_place.h"
#include "tools/program.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

/// As troff takes text: a hyphen that is not broken at, and no line that is a request.
std::string troff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (escaped.empty() || escaped.back() == '\n')
      if (c == '.' || c == '\'') escaped += "\\&";
    if (c == '-')
      escaped += "\\-";
    else if (c == '\\')
      escaped += "\\e";
    else
      escaped += c;
  }
  return escaped;
}

std::string bold(std::string_view text) { return "\\fB" + troff(text) + "\\fR"; }
/// A long list of names, "a|b|c", may go on in the next line.
std::string italic(std::string_view text) {
  if (text.empty()) return {};
  std::string names = troff(text);
  for (auto at = names.find('|'); at != names.npos; at = names.find('|', at + 1))
    names.insert(at + 1, "\\:");
  return "\\fI" + names + "\\fR";
}

std::string section_heading(std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return ".SH " + name + "\n";
}

std::string part(std::string_view name) { return fmt::format(".SS {}\n", troff(name)); }

std::string entry(const std::string& left, std::string_view text) {
  return ".TP\n" + left + "\n" + troff(text) + "\n";
}

/// SOURCE_DATE_EPOCH's, as builds that are to be repeated have it, else today's.
std::string date() {
  std::time_t seconds = std::time(nullptr);
  if (const char* given = std::getenv("SOURCE_DATE_EPOCH"))
    std::from_chars(given, given + std::string_view(given).size(), seconds);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  return fmt::format("{:%Y-%m-%d}", parts);
}

std::string title(std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return fmt::format(".TH {} 1 {} \"millrace {}\" \"User Commands\"\n", troff(name), date(),
                     MILLRACE_VERSION);
}

std::string option_names(const ShownOption& option) {
  std::string names;
  for (const std::string& name : option.names) names += (names.empty() ? "" : ", ") + bold(name);
  return names + (option.value.empty() ? "" : " " + italic(option.value));
}

std::string synopsis(const std::string& name, const std::vector<ShownOption>& options) {
  std::string text = ".B millrace " + troff(name) + "\n";
  for (const ShownOption& option : options)
    if (option.is_argument) text += fmt::format(".RI [ {} ]\n", troff(option.value));
  return text + ".RI [ options ]\n";
}

std::string options_text(const std::vector<ShownOption>& options) {
  std::string text;
  std::string last;
  for (const ShownOption& option : options) {
    if (option.is_argument) text += entry(italic(option.value), option.text);
    if (option.is_argument || option.heading == kHiddenGroup) continue;
    if (option.heading != last) text += part(option.heading);
    last = option.heading;
    text += entry(option_names(option), option.text);
  }
  return text;
}

std::string component_text(const StructType& type) {
  std::string text = entry(bold(type.name().word), type.name().sentence);
  const std::vector<Field> fields = type.fields(type.usual());
  if (fields.empty()) return text;
  text += ".RS\n.PP\n" + troff(usage(type)) + "\n";
  for (const Field& field : fields)
    text += entry(bold(field.name) + " " + italic(field.type->shown()), field.sentence);
  return text + ".RE\n";
}

std::string components_text(const std::vector<const Table*>& tables) {
  std::string text;
  for (const Table* table : tables) {
    text += part(table->kind());
    for (const Component& one : table->all()) text += component_text(one.type());
  }
  return text.empty() ? text : section_heading("components") + text;
}

std::string example_text(const std::string& example) {
  std::string text = example.substr(0, example.find_last_not_of('\n') + 1);
  return section_heading("examples") + ".nf\n" + troff(text) + "\n.fi\n";
}

constexpr const char* kExitStatus =
    ".SH EXIT STATUS\n0 done, 1 a fault in data, network, disk or training, 2 a usage error, 130, "
    "138 or 143 interrupted.\n";

std::string command_page(Command& command) {
  CLI::App app;
  bool json = false;
  declare_options(app, command, json);
  const std::vector<ShownOption> options = shown_options(app);
  const std::string name = "millrace-" + command.name();
  return title(name) + section_heading("name") + troff(name) + " \\- " + troff(command.summary()) +
         "\n" + section_heading("synopsis") + synopsis(command.name(), options) +
         section_heading("options") + options_text(options) + components_text(command.tables()) +
         example_text(wrapped_example(command.example())) + kExitStatus +
         section_heading("see also") + ".BR millrace (1)\n";
}

std::string overview_page(const std::vector<std::unique_ptr<Command>>& commands) {
  std::string text =
      title("millrace") + section_heading("name") +
      "millrace \\- streams WebDataset shards into bf16 training\n" + section_heading("synopsis") +
      ".B millrace\n.I COMMAND\n.RI [ arguments ]\n.RI [ options ]\n" +
      section_heading("description") +
      "Shards are named by a path or URL with braces (train\\-{000000..000639}.tar), "
      "several joined by ::, a folder, a .json manifest, or \\- for standard input.\n" +
      section_heading("commands");
  for (const auto& command : commands)
    text += ".TP\n.BR millrace\\-" + troff(command->name()) + " (1)\n" + troff(command->summary()) +
            "\n";
  return text + kExitStatus;
}

class ManCommand final : public Command {
 public:
  std::string name() const override { return "man"; }
  std::string summary() const override { return "Writes the manual's pages, for man"; }
  std::string example() const override {
    return "  millrace man train | man -l -\n  millrace man -o ~/.local/share/man/man1\n";
  }
  void declare(CLI::App& app) override {
    app.add_option("COMMAND", command_, "Print the page of this command, or of the program");
    app.add_option("-o,--output", out_, "Write all pages into this folder instead")
        ->type_name("DIR")
        ->transform(output_path());
  }
  void check() override {
    require(command_.empty() || out_.empty(), "--output writes all pages: leave out COMMAND");
    if (command_.empty()) return;
    std::vector<std::string> names;
    for (const auto& command : all_commands()) names.push_back(command->name());
    require(std::ranges::find(names, command_) != names.end(),
            "no command " + printable(command_) + did_you_mean(command_, names));
  }
  void run(CommandContext& context) override {
    const auto commands = all_commands();
    if (!out_.empty()) return write_all(commands, context);
    std::string page = overview_page(commands);
    for (const auto& command : commands)
      if (command->name() == command_) page = command_page(*command);
    page.pop_back();
    context.out.line(page);
  }

 private:
  void write_all(const std::vector<std::unique_ptr<Command>>& commands,
                 CommandContext& context) const {
    NetworkOptions network;
    network.attach(context);
    const auto write = [&](const std::string& name, const std::string& page) {
      const auto sink =
          open_output_file(*network.opener(), out_ + "/" + name + ".1", io::Replace::kAtomically);
      sink->write(std::as_bytes(std::span(page)));
      sink->finish();
    };
    write("millrace", overview_page(commands));
    for (const auto& command : commands)
      write("millrace-" + command->name(), command_page(*command));
    context.log.info(fmt::format("{}: {}", out_, counted(commands.size() + 1, "page")));
  }

  std::string command_;
  std::string out_;
};

}  // namespace

std::unique_ptr<Command> make_man_command() { return std::make_unique<ManCommand>(); }

}  // namespace millrace::tools

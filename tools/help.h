// The text of --help: usage, the options under their headings in 80 columns, an example. Where
// that is more than two screens, --help has the options marked as in_short_help() alone, and
// `--help all`, or the first word of a heading, the rest.
//
// Threads: pure functions.
#pragma once

#include <CLI/App.hpp>
#include <span>
#include <string>
#include <vector>

#include "io/component/choice.h"

namespace millrace::tools {

/// The last heading: options that every command has.
inline constexpr const char* kGeneralGroup = "General";
/// Not shown: options that have their own help (--help sgd). CLI11 has no name for those of the
/// group "".
inline constexpr const char* kHiddenGroup = "Hidden";

/// An option that --help shows without a further word.
CLI::Validator in_short_help();

/// What `--help TOPIC` prints of options: all of them, those of a heading by its first word, or one
/// by its name. Empty if there is nothing called so.
std::string option_help(const CLI::App& app, const std::string& topic);
/// Topics that option_help() knows, without the options' names.
std::vector<std::string> help_topics(const CLI::App& app);

/// An option as help shows it, for manuals and shells.
struct ShownOption {
  std::vector<std::string> names =
      {};                  ///< "-o", "--output"; of an argument that has no dashes, its own
  std::string kind = {};   ///< of its value: "FILE", "NAME"; empty: it takes none
  std::string value = {};  ///< the same as help has it: "FILE..."
  std::vector<std::string> choices = {};  ///< all that it may be; empty: whatever the kind says
  std::string text = {};                  ///< what it does, and its default
  std::string heading = {};  ///< empty for arguments, kHiddenGroup for what has its own help
  bool is_argument = false;
};
/// All of them, in the order of `--help all`.
std::vector<ShownOption> shown_options(const CLI::App& app);

/// A command's example() in 80 columns: what stands at the margin are sentences, which are wrapped;
/// what is indented is for a shell, and goes on in the next line by a backslash.
std::string wrapped_example(const std::string& example);

/// Of a command's tables, the one whose components the option's value names; null if it names none.
const Table* table_of(const ShownOption& option, std::span<const Table* const> tables);

class HelpText final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace millrace::tools

// The text of --help: usage, the options under their headings in 80 columns, an example. Where
// that is more than two screens, --help has the options marked as in_short_help() alone, and
// `--help all`, or the first word of a heading, the rest.
//
// Threads: pure functions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

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

class HelpText final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace millrace::tools

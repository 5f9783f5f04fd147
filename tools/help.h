// The text of --help: usage, the options under their headings in 80 columns, an example.
//
// Threads: pure functions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace millrace::tools {

/// The last heading: options that every command has.
inline constexpr const char* kGeneralGroup = "General";

class HelpText final : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace millrace::tools

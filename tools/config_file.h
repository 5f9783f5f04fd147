// ConfigFile: the TOML file or recipe of --config, overridden by the command line.
//
// Every option may be set in the file by its long name, or a name that users know from other tools
// (tools/option_names.h); errors name the file and the line. `devices = [5]` means device 5, not
// five devices.
//
//   use_config_file(app);   // declares --config
//
// Threads: one at a time.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

namespace millrace::tools {

/// Reads the file for `app` and sets those options that the command line did not.
class ConfigFile final : public CLI::ConfigTOML {
 public:
  /// `app` is borrowed.
  explicit ConfigFile(CLI::App& app) : app_(app) {}

  /// Sets the options directly and returns an empty list. Throws: InvalidArgument.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

 private:
  CLI::App& app_;
};

void use_config_file(CLI::App& app);

/// The recipes that came with the program: installed, or in the source tree it was built from.
std::vector<std::string> recipe_names();

}  // namespace millrace::tools

// ConfigFile: --config's TOML, or a recipe by its name, laid under the command line.
//
// Every option may stand in the file by its long name, or a name that users know from elsewhere
// (tools/option_names.h); what is wrong there is said with the file and the line. `devices = [5]`
// is device 5, and not five devices.
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

/// Reads the file for `app`, and gives its options what the command line did not.
class ConfigFile final : public CLI::ConfigTOML {
 public:
  /// `app` is borrowed.
  explicit ConfigFile(CLI::App& app) : app_(app) {}

  /// Throws: InvalidArgument. Returns nothing: the options have it all.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

 private:
  CLI::App& app_;
};

void use_config_file(CLI::App& app);

/// The recipes that came with the program: beside the sources it was built from, or installed.
std::vector<std::string> recipe_names();

}  // namespace millrace::tools

// ConfigFile: the TOML file or recipe of --config, or a run's config.json, overridden by the
// command line.
//
// Every option may be set in the file by its long name, or a name that users know from other tools
// (tools/option_names.h); errors name the file and the line. `devices = [5]` means device 5, not
// five devices. Of a config.json, its options are taken, but for those that say where that run
// wrote and what it continued.
//
//   use_config_file(app);   // declares --config
//
// Threads: one at a time.
#pragma once

#include <CLI/App.hpp>
#include <istream>
#include <string>
#include <utility>
#include <vector>

namespace millrace::tools {

/// Reads the file for `app` and sets those options that the command line neither gives nor
/// excludes.
class ConfigFile final : public CLI::ConfigTOML {
 public:
  /// `app` is borrowed.
  explicit ConfigFile(CLI::App& app) : app_(app) {}

  /// Sets the options directly and returns an empty list. Throws: InvalidArgument.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

  /// What the file says of these options is not read.
  void leave_out(std::vector<std::string> names) { left_out_ = std::move(names); }

 private:
  CLI::App& app_;
  std::vector<std::string> left_out_ = {};
};

void use_config_file(CLI::App& app);
/// As ConfigFile::leave_out(), of the file that `app` uses.
void leave_out(const CLI::App& app, std::vector<std::string> names);

/// The recipes that came with the program: installed, or in the source tree it was built from.
std::vector<std::string> recipe_names();

}  // namespace millrace::tools

// ConfigFile: TOML for --config, read by CLI11, but for what would be lost on the way: that
// `devices = [5]` is device 5 and not five devices.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <vector>

namespace millrace::tools {

class ConfigFile final : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
};

}  // namespace millrace::tools

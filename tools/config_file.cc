#include "tools/config_file.h"

#include <regex>
#include <sstream>
#include <string>

namespace millrace::tools {

std::vector<CLI::ConfigItem> ConfigFile::from_config(std::istream& input) const {
  static const std::regex kDevices(R"(^\s*devices\s*=\s*(\[[^\]]*\]).*$)");
  std::stringstream quoted;
  for (std::string line; std::getline(input, line);)
    quoted << std::regex_replace(line, kDevices, "devices = '$1'") << '\n';
  return CLI::ConfigTOML::from_config(quoted);
}

}  // namespace millrace::tools

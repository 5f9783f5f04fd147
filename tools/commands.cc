#include "tools/commands.h"

namespace millrace::tools {

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  return commands;
}

}  // namespace millrace::tools

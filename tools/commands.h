// The commands of the program. Each is defined by make_NAME_command() in the source file of its
// name, and listed in tools/CMakeLists.txt.
#pragma once

#include <memory>
#include <vector>

#include "tools/command.h"

namespace millrace::tools {

/// All of them, in the order of --help.
std::vector<std::unique_ptr<Command>> all_commands();

}  // namespace millrace::tools

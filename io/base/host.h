// The machine's name.
#pragma once

#include <string>

namespace millrace {

/// "localhost" where it has none. Threads: any.
std::string host_name();

}  // namespace millrace

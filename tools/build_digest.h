// build_digest: which build of the program this is. Processes of one run need the same: another one
// may compute other bits.
#pragma once

#include <string>

namespace millrace::tools {

/// The version, and the beginning of the SHA-256 of the program's file and of millrace's shared
/// libraries.
std::string build_digest();

}  // namespace millrace::tools

// What --version prints: the program's version, and what it was built with, which decides what it
// can do and how fast. A report of a fault begins with it.
#pragma once

#include <string>

namespace millrace::tools {

/// "millrace 0.1.0" and a line for each part, without a newline at the end.
std::string version_text();

/// Throws: Unsupported in a build without the libraries that train (MILLRACE_TRAINER=OFF).
void require_trainer();

}  // namespace millrace::tools

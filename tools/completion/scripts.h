// The scripts of shells that complete command lines: each asks the program for the candidates.
//
// Threads: pure functions.
#pragma once

#include <string>

namespace millrace::tools {

/// `shell`: bash, zsh or fish.
std::string completion_script(const std::string& shell);

}  // namespace millrace::tools

// A word as a POSIX shell reads it back: for command lines that are run, or that people copy.
//
// Threads: pure functions.
#pragma once

#include <string>

namespace millrace::tools {

/// `word` between single quotes: 'it'\''s'.
std::string shell_word(const std::string& word);
/// For people to copy: without quotes where there is nothing to quote, and with what a terminal
/// would obey, or is no UTF-8, escaped as bash, zsh and ksh have it: $'\x1b[31m'.
std::string shown_shell_word(const std::string& word);

}  // namespace millrace::tools

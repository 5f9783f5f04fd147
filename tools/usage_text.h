// What the command line's parser finds wrong, in words for people.
//
// Threads: pure functions.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace millrace::tools {

/// One line, without repeating more than a little of what was given.
std::string usage_text(const CLI::ParseError& error);

/// Throws: InvalidArgument when a value that was given is empty: `--run-dir "$UNSET"`.
void check_given(const CLI::Option& option);

}  // namespace millrace::tools

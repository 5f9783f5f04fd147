// The command line parser's errors, in plain words.
//
// Threads: pure functions.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace millrace::tools {

/// One line, which quotes the input only in part.
std::string usage_text(const CLI::ParseError& error);

/// A mark: a value of the option may be empty.
CLI::Validator may_be_empty();

/// Throws: InvalidArgument if a given value is empty: `--run-dir "$UNSET"`.
void check_given(const CLI::Option& option);

}  // namespace millrace::tools

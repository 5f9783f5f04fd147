// ShellLine: a command line of a shell as far as it is typed, divided into words.
//
//   read_shell_line("A=1 millrace train --optimizer 'sgd(mo", breaks).words   // ..., "sgd(mo"
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::tools {

struct ShellLine {
  /// Those of the last command, without quotes and backslashes; the last one, which may be empty,
  /// is being typed. Without settings of variables, with the program's name.
  std::vector<std::string> words = {};
  /// Where in the last word the part begins that the shell's line editor takes for the word.
  std::size_t edited_from = 0;
  bool in_quotes = false;
};

/// `breaks`: the characters at which the line editor begins a word outside of quotes
/// (COMP_WORDBREAKS).
ShellLine read_shell_line(std::string_view typed, std::string_view breaks);

}  // namespace millrace::tools

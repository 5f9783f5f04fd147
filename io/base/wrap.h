// Wrap: text in lines of a terminal's width, and the entries of help.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <string>

namespace millrace {

/// 80, or fewer if standard output is a narrower terminal.
std::size_t text_columns();

/// The words of `text` in lines of text_columns() at most, between single spaces: the first line
/// begins where it is put, at `column`, the others at `indent` spaces. A longer word has a line of
/// its own, and a number stays with its "%".
std::string wrapped(const std::string& text, std::size_t column, std::size_t indent);

/// An entry of help: `left` indented, and `text` beside it in a column of its own, or below where
/// `left` is too long. Ends with a line break.
std::string help_entry(const std::string& left, const std::string& text);

}  // namespace millrace

// Unicode's explicit controls of direction, U+202A to U+202E and U+2066 to U+2069: they let text
// read as another than it is, a file's name among it, and are shown escaped as control characters
// are.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace {

/// The code of the one that `text` begins with; 0 if it does not. Each is kBidiBytes of UTF-8.
unsigned bidi_control(std::string_view text);
inline constexpr std::size_t kBidiBytes = 3;

/// JSON's text with those in its strings as "\u202e".
std::string with_escaped_bidi(std::string_view json);

}  // namespace millrace

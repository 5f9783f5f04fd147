// Text for people: counts with their nouns, and what came from outside made fit for a line.
//
//   counted(1, "device")             // "1 device"; "2 devices", "3 classes"
//   printable(value, kEchoBytes)     // one line, no control characters, 80 bytes at most
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

/// What a message repeats of a value that was wrong, at most.
inline constexpr std::size_t kEchoBytes = 80;

/// `text` as a terminal and JSON can take it: white space becomes a space, other control characters
/// and bytes that are no UTF-8 become \x1b; what is over `limit` bytes is cut, and ends in "...".
std::string printable(std::string_view text, std::size_t limit = kEchoBytes);

/// "1 device", "2 devices", "0 classes": a count and the noun as the count wants it.
std::string counted(std::uint64_t count, std::string_view noun);

}  // namespace millrace

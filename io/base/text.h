// Text: what is UTF-8; for people, counts with their nouns, and untrusted text made printable on
// one line; sizes as people write them.
//
//   counted(1, "device")             // "1 device"; "2 devices", "3 classes"
//   printable(value, kEchoBytes)     // one line, no control characters, 80 bytes at most
//   parse_size("2GiB")               // 2147483648
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// Bytes from the beginning of `text` that are UTF-8 as RFC 3629 defines it: no overlong forms, no
/// surrogates, nothing above U+10FFFF.
std::size_t utf8_prefix(std::string_view text);
/// The beginning of UTF-8 in at most so many bytes, without half a character.
inline std::string_view utf8_beginning(std::string_view text, std::size_t most) {
  return text.substr(0, utf8_prefix(text.substr(0, most)));
}
inline bool is_utf8(std::string_view text) { return utf8_prefix(text) == text.size(); }

/// How much of an invalid value a message repeats at most, in bytes.
inline constexpr std::size_t kEchoBytes = 80;

/// `text` made safe for terminals and JSON: tabs and line breaks become spaces, other control
/// characters and invalid UTF-8 are escaped ("\x1b"); cut at `limit` bytes, then ending in "...".
std::string printable(std::string_view text, std::size_t limit = kEchoBytes);

/// A count and its noun in the singular or plural: "1 device", "2 devices", "0 classes".
std::string counted(std::uint64_t count, std::string_view noun);

/// A size in bytes: "3e9", "500M" (thousands), "2GiB" (1024s). Nullopt unless 1 or more.
std::optional<std::uint64_t> parse_size(const std::string& size);

}  // namespace millrace

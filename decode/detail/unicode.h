// Unicode for tokenizers: what a character is, and the forms that texts are brought into.
//
// Texts are UTF-8. The tables are utf8proc's, of its version of Unicode.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::decode::detail {

enum class CharKind { kSpace, kLetter, kNumber, kOther };

struct Char {
  CharKind kind;
  std::size_t bytes;
};

/// The character at `at`: White_Space, categories L and N, or another. Requires: it begins there.
Char char_at(std::string_view text, std::size_t at);
/// Where the character before `at` begins. Requires: there is one.
std::size_t char_before(std::string_view text, std::size_t at);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
/// Throws: Exhausted.
std::string normalized(std::string_view text, NormalForm form);
/// Each character's lower case by itself, as Rust's char::to_lowercase().
std::string lower_case(std::string_view text);

/// A character's UTF-8.
std::string utf8(std::int32_t code);

}  // namespace millrace::decode::detail

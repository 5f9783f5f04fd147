#include "tools/shell_word.h"

#include <fmt/format.h>

#include <string_view>

#include "io/base/text.h"

namespace millrace::tools {

std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

namespace {

/// Every byte that is not printable ASCII is escaped.
std::string escaped_shell_word(const std::string& word) {
  std::string text = "$'";
  for (const char c : word) {
    const bool is_plain = c >= 0x20 && c < 0x7F;
    if (is_plain && (c == '\'' || c == '\\')) text += '\\';
    text += is_plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return text + "'";
}

}  // namespace

std::string shown_shell_word(const std::string& word) {
  if (printable(word, word.npos) != word) return escaped_shell_word(word);
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
      "0123456789_./:=@%+,-";
  const bool is_plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
  return is_plain ? word : shell_word(word);
}

}  // namespace millrace::tools

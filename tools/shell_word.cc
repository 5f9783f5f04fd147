#include "tools/shell_word.h"

#include <string_view>

namespace millrace::tools {

std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string shown_shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
      "0123456789_./:=@%+,-";
  const bool is_plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
  return is_plain ? word : shell_word(word);
}

}  // namespace millrace::tools

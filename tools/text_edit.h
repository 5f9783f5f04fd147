// A text without the blanks around it, and with a part replaced wherever it stands.
//
//   trimmed("  cat\t")                         // "cat"
//   replaced("fold{fold}.tar", "{fold}", "3")  // "fold3.tar"
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::tools {

/// Of `text`, without what of `blanks` is around it.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r") {
  const std::size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

/// What replaces `old` is not looked at again. Requires: `old` is not empty.
inline std::string replaced(std::string_view text, std::string_view old, std::string_view by) {
  std::string made;
  std::size_t at = 0;
  for (std::size_t found = 0; (found = text.find(old, at)) != std::string_view::npos;
       at = found + old.size())
    made.append(text.substr(at, found - at)).append(by);
  return made.append(text.substr(at));
}

}  // namespace millrace::tools

// Output: checked standard output: a full disk is a fault, a closed pipe a quiet end.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::tools {

/// `name` (a key, a suffix, a url) as listings show it: on one line and harmless to a terminal.
/// Control characters are written "\n", "\t" or "\u001b", bytes that are not UTF-8 "\xe9".
std::string shown_name(std::string_view name);

/// The JSON's text, where names may be those of files, which need not be UTF-8.
template <typename Json>
std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Output {
 public:
  /// Thrown when the reader of our output is gone (`millrace ls ... | head`).
  struct Closed {};

  explicit Output(std::FILE* file) : file_(file) {}

  /// Before each write `prepare` is called: it erases a line of progress that shares the terminal.
  void before_writes(std::function<void()> prepare) { prepare_ = std::move(prepare); }
  /// Writes `text` and a newline. What a terminal would obey is escaped as in shown_name(), except
  /// line breaks and tabs. Throws: Closed, Error (Io).
  void line(std::string_view text);
  void write(std::span<const std::byte> data);
  /// Flushes what was written so far. Throws: as line().
  void flush();

 private:
  void check(bool good);

  std::FILE* file_;
  std::function<void()> prepare_ = [] {};
};

}  // namespace millrace::tools

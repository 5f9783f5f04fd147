// Output: checked standard output: a full disk is a fault, a closed pipe a quiet end.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdio>
#include <span>
#include <string_view>

namespace millrace::tools {

class Output {
 public:
  /// Thrown when the reader of our output is gone (`millrace ls ... | head`).
  struct Closed {};

  explicit Output(std::FILE* file) : file_(file) {}

  /// Writes `text` and a newline. Throws: Closed, Error (Io).
  void line(std::string_view text);
  void write(std::span<const std::byte> data);
  /// Flushes what was written so far. Throws: as line().
  void flush();

 private:
  void check(bool good);

  std::FILE* file_;
};

}  // namespace millrace::tools

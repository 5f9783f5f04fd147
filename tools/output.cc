#include "tools/output.h"

#include <cerrno>
#include <string>

#include "io/base/error.h"

namespace millrace::tools {

void Output::line(std::string_view text) {
  check(std::fwrite(text.data(), 1, text.size(), file_) == text.size() &&
        std::fputc('\n', file_) != EOF);
}

void Output::write(std::span<const std::byte> data) {
  check(std::fwrite(data.data(), 1, data.size(), file_) == data.size());
}

void Output::flush() { check(std::fflush(file_) == 0); }

void Output::check(bool good) {
  if (good) return;
  if (errno == EPIPE) throw Closed{};
  throw_errno("write", "standard output", errno);
}

}  // namespace millrace::tools

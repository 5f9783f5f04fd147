#include "tools/output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <optional>
#include <string>

#include "io/base/bidi.h"
#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::tools {
namespace {

/// Whether `text` has no byte that may have to be escaped: nearly all lines.
bool is_plain(std::string_view text) {
  bool plain = true;
  for (const char byte : text) plain &= byte >= 0x20 && byte < 0x7F;
  return plain;
}

bool is_break(char byte) { return byte == '\n' || byte == '\t'; }

/// "\n", "\t", or as JSON has it: "\u001b".
std::string escape(unsigned control) {
  if (control == '\n') return "\\n";
  if (control == '\t') return "\\t";
  return fmt::format("\\u{:04x}", control);
}

/// Bytes of the character at `at` and its code, if that is a control character's.
struct Character {
  std::size_t bytes = 1;
  std::optional<unsigned> control = {};
  bool is_valid = true;
};

Character character_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) {
    if (first < 0x20 || first == 0x7F) return {.control = first};
    return {};
  }
  for (std::size_t bytes = 2; bytes <= 4 && at + bytes <= text.size(); ++bytes) {
    if (!is_utf8(text.substr(at, bytes))) continue;
    const auto second = static_cast<unsigned char>(text[at + 1]);
    if (bytes == 2 && first == 0xC2 && second < 0xA0) return {.bytes = 2, .control = second};
    if (const unsigned bidi = bidi_control(text.substr(at, bytes)); bidi != 0)
      return {.bytes = bytes, .control = bidi};
    return {.bytes = bytes};
  }
  return {.is_valid = false};
}

/// `text` with what a terminal would obey escaped; line breaks and tabs only if `all`.
std::string harmless(std::string_view text, bool all) {
  std::string line;
  for (std::size_t at = 0; at < text.size();) {
    const Character one = character_at(text, at);
    if (!one.is_valid)
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    else if (one.control && (all || !is_break(text[at])))
      line += escape(*one.control);
    else
      line += text.substr(at, one.bytes);
    at += one.bytes;
  }
  return line;
}

}  // namespace

std::string shown_name(std::string_view name) {
  return is_plain(name) ? std::string(name) : harmless(name, true);
}

void Output::line(std::string_view text) {
  const std::string safe = is_plain(text) ? std::string() : harmless(text, false);
  if (!safe.empty()) text = safe;
  prepare_();
  check(std::fwrite(text.data(), 1, text.size(), file_) == text.size() &&
        std::fputc('\n', file_) != EOF);
}

void Output::write(std::span<const std::byte> data) {
  prepare_();
  check(std::fwrite(data.data(), 1, data.size(), file_) == data.size());
}

void Output::flush() { check(std::fflush(file_) == 0); }

void Output::check(bool good) {
  if (good) return;
  if (errno == EPIPE) throw Closed{};
  throw_errno("write", "standard output", errno);
}

}  // namespace millrace::tools

#include "io/base/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "io/base/bidi.h"

namespace millrace {
namespace {

constexpr std::string_view kCut = "...";

bool continues(std::string_view text, std::size_t at, std::size_t count) {
  for (std::size_t i = 1; i < count; ++i)
    if (at + i >= text.size() || (static_cast<unsigned char>(text[at + i]) & 0xC0U) != 0x80U)
      return false;
  return true;
}

/// Bytes of the UTF-8 character at `at`; 0 where there is none.
std::size_t character_bytes(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t count = lead < 0x80   ? 1
                            : lead < 0xC2 ? 0
                            : lead < 0xE0 ? 2
                            : lead < 0xF0 ? 3
                            : lead < 0xF5 ? 4
                                          : 0;
  if (count == 0 || !continues(text, at, count)) return 0;
  if (count < 3) return count;
  // Overlong forms, surrogates, and code points beyond U+10FFFF.
  const auto next = static_cast<unsigned char>(text[at + 1]);
  const bool wrong = (lead == 0xE0 && next < 0xA0) || (lead == 0xED && next >= 0xA0) ||
                     (lead == 0xF0 && next < 0x90) || (lead == 0xF4 && next >= 0x90);
  return wrong ? 0 : count;
}

std::string escaped(char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  return {'\\', 'x', kDigits[value >> 4U], kDigits[value & 0xFU]};
}

/// Those of ASCII, and of Latin-1's second half (U+0080 to U+009F), one of which begins a
/// terminal's sequences as ESC [ does; and those of direction.
bool is_control(std::string_view one) {
  if (bidi_control(one) != 0) return true;
  const auto first = static_cast<unsigned char>(one[0]);
  if (one.size() == 2) return first == 0xC2 && static_cast<unsigned char>(one[1]) < 0xA0;
  return one.size() == 1 && (first < 0x20 || first == 0x7F);
}

bool is_space(char byte) { return byte == '\n' || byte == '\r' || byte == '\t'; }

/// One character, or one byte that is not part of a valid character.
std::string shown(std::string_view one, bool valid) {
  if (is_space(one[0])) return " ";
  if (valid && !is_control(one)) return std::string(one);
  std::string text;
  for (const char byte : one) text += escaped(byte);
  return text;
}

/// Bytes of "B", "k", "MB", "GiB", "ti"; NaN for anything else.
double unit_of(std::string_view name) {
  if (name == "B") return 1;
  const double thousand = name.ends_with("iB") || name.ends_with('i') ? 1024.0 : 1000.0;
  constexpr std::array<std::string_view, 4> kLetters = {"kK", "mM", "gG", "tT"};
  const std::string_view rest = name.substr(1);
  if (!rest.empty() && rest != "B" && rest != "i" && rest != "iB") return std::nan("");
  double value = thousand;
  for (const std::string_view letters : kLetters) {
    if (letters.find(name[0]) != std::string_view::npos) return value;
    value *= thousand;
  }
  return std::nan("");
}

}  // namespace

std::size_t utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = character_bytes(text, at);
    if (bytes == 0) break;
    at += bytes;
  }
  return at;
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string line;
  std::size_t fits = 0;  // how much of the line is kept if the text must be cut
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = std::max<std::size_t>(1, character_bytes(text, at));
    line += shown(text.substr(at, bytes), character_bytes(text, at) > 0);
    at += bytes;
    if (line.size() > limit) return line.substr(0, fits).append(kCut);
    if (line.size() + kCut.size() <= limit) fits = line.size();
  }
  return line;
}

std::string counted(std::uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count) + " " + std::string(noun);
  if (count == 1) return text;
  if (noun.ends_with("epoch")) return text + "s";  // its "ch" is pronounced "k"
  for (const std::string_view end : std::array<std::string_view, 4>{"s", "x", "ch", "sh"})
    if (noun.ends_with(end)) return text + "es";
  return text + "s";
}

std::optional<std::uint64_t> parse_size(const std::string& size) {
  constexpr double kMost = 9e15;
  char* end = nullptr;
  const double value = std::strtod(size.c_str(), &end);
  const double bytes = *end == '\0' ? value : value * unit_of(end);
  if (end == size.c_str() || !(bytes >= 1 && bytes < kMost)) return {};
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace millrace

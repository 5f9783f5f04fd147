#include "io/base/bidi.h"

#include <fmt/format.h>

namespace millrace {

unsigned bidi_control(std::string_view text) {
  if (text.size() < kBidiBytes || text[0] != '\xE2') return 0;
  const auto second = static_cast<unsigned char>(text[1]);
  const auto third = static_cast<unsigned char>(text[2]);
  const bool is_embedding = second == 0x80 && third >= 0xAA && third <= 0xAE;
  const bool is_isolate = second == 0x81 && third >= 0xA6 && third <= 0xA9;
  if (!is_embedding && !is_isolate) return 0;
  return 0x2000U + (second & 0x3FU) * 0x40U + (third & 0x3FU);
}

std::string with_escaped_bidi(std::string_view json) {
  std::string text;
  for (std::size_t at = 0; at < json.size();) {
    const unsigned control = bidi_control(json.substr(at));
    text += control == 0 ? std::string(1, json[at]) : fmt::format("\\u{:04x}", control);
    at += control == 0 ? 1 : kBidiBytes;
  }
  return text;
}

}  // namespace millrace

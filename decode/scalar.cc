#include "decode/scalar.h"

#include <charconv>
#include <string>

#include "io/base/error.h"

namespace millrace::decode {
namespace {

constexpr std::string_view kSpace = " \t\n\v\f\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// The part of a field that a message shows.
std::string quoted(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, 20)) shown += c >= ' ' && c <= '~' ? c : '?';
  return shown + (text.size() > 20 ? "...\"" : "\"");
}

// Length of the UTF-8 sequence at the beginning of `text`; 0 if there is none.
// Source: RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

std::int64_t decode_integer(const io::Bytes& field) {
  std::string_view text = trimmed(field.text());
  const bool plus = text.starts_with('+');
  if (plus) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    throw Error(ErrorCode::kCorrupt, "integer above 64 bits: " + quoted(text));
  }
  const bool garbage = error != std::errc() || end != text.data() + text.size();
  if (garbage || (plus && text.starts_with('-'))) {
    throw Error(ErrorCode::kCorrupt, "not an integer: " + quoted(field.text()));
  }
  return value;
}

std::string_view decode_text(const io::Bytes& field) {
  const std::string_view text = field.text();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text.substr(at));
    if (length == 0) throw Error(ErrorCode::kCorrupt, "text that is not UTF-8", {.offset = at});
    at += length;
  }
  return text;
}

}  // namespace millrace::decode

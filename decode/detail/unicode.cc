#include "decode/detail/unicode.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <memory>

#include "io/base/error.h"

namespace millrace::decode::detail {
namespace {

constexpr utf8proc_int32_t kCapitalDottedI = 0x130;

const utf8proc_uint8_t* utf8proc_bytes(std::string_view text) {
  return reinterpret_cast<const utf8proc_uint8_t*>(text.data());
}

std::size_t code_at(std::string_view text, std::size_t at, utf8proc_int32_t& code) {
  const std::string_view rest = text.substr(at);
  const auto bytes =
      utf8proc_iterate(utf8proc_bytes(rest), static_cast<utf8proc_ssize_t>(rest.size()), &code);
  if (bytes > 0) return static_cast<std::size_t>(bytes);
  throw Error(ErrorCode::kCorrupt, "text that is not UTF-8", {.offset = at});
}

// Unicode's White_Space.
bool is_white_space(utf8proc_int32_t code) {
  const auto within = [code](utf8proc_int32_t first, utf8proc_int32_t last) {
    return code >= first && code <= last;
  };
  return within(0x09, 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         within(0x2000, 0x200A) || within(0x2028, 0x2029) || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

CharKind kind_of(utf8proc_int32_t code) {
  if (is_white_space(code)) return CharKind::kSpace;
  const utf8proc_category_t category = utf8proc_category(code);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO)
    return CharKind::kLetter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO)
    return CharKind::kNumber;
  return CharKind::kOther;
}

utf8proc_option_t options_of(NormalForm form) {
  constexpr std::array<int, 4> kOptions = {UTF8PROC_COMPOSE, UTF8PROC_DECOMPOSE,
                                           UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                           UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE |
                                        kOptions.at(static_cast<std::size_t>(form)));
}

}  // namespace

Char char_at(std::string_view text, std::size_t at) {
  utf8proc_int32_t code = 0;
  const std::size_t bytes = code_at(text, at, code);
  return {kind_of(code), bytes};
}

std::size_t char_before(std::string_view text, std::size_t at) {
  const auto continues = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0U) == 0x80U;
  };
  for (--at; at > 0 && continues(at);) --at;
  return at;
}

std::string normalized(std::string_view text, NormalForm form) {
  utf8proc_uint8_t* made = nullptr;
  const auto size = utf8proc_map(utf8proc_bytes(text), static_cast<utf8proc_ssize_t>(text.size()),
                                 &made, options_of(form));
  if (size < 0) throw Error(ErrorCode::kExhausted, utf8proc_errmsg(size));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(made, &std::free);
  return {reinterpret_cast<const char*>(made), static_cast<std::size_t>(size)};
}

std::string lower_case(std::string_view text) {
  std::string lower;
  lower.reserve(text.size());
  utf8proc_int32_t code = 0;
  for (std::size_t at = 0; at < text.size();) {
    at += code_at(text, at, code);
    lower += utf8(utf8proc_tolower(code));
    if (code == kCapitalDottedI) lower += "\xCC\x87";  // the dot above, which is a character
  }
  return lower;
}

std::string utf8(std::int32_t code) {
  std::array<utf8proc_uint8_t, 4> bytes = {};
  const auto size = utf8proc_encode_char(code, bytes.data());
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size)};
}

}  // namespace millrace::decode::detail

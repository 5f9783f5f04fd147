#include "tools/order/slot_text.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "io/opener.h"
#include "tools/output.h"

namespace millrace::tools {
namespace {

/// The JSON of a text, with the control characters that JSON lets be: DEL, and U+0080 to U+009F.
std::string quoted(std::string_view value) {
  const std::string json = json_text(nlohmann::json(value));
  std::string text;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const auto byte = static_cast<unsigned char>(json[i]);
    const auto next = static_cast<unsigned char>(i + 1 < json.size() ? json[i + 1] : 0);
    if (byte == 0x7F) {
      text += "\\u007f";
    } else if (byte == 0xC2 && next < 0xA0) {
      text += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      text += json[i];
    }
  }
  return text;
}

/// A JSON string. Nearly all need no escapes, and millions are printed per second.
void append_quoted(std::string_view value, std::string& text) {
  bool plain = true;
  for (const char letter : value)
    plain &= letter >= 0x20 && letter < 0x7F && letter != '"' && letter != '\\';
  if (!plain) {
    text += quoted(value);
    return;
  }
  text += '"';
  text += value;
  text += '"';
}

/// A shard's url without its secrets. Millions are printed per second, nearly all without any.
template <typename Append>
void append_url(const std::string& url, const Append& append) {
  const bool plain =
      url.find("://") == std::string::npos || url.find_first_of("@?#") == std::string::npos;
  append(plain ? std::string_view(url) : std::string_view(io::printable_url(url)));
}

/// At least `width` characters, with spaces in front.
void append_number(std::uint64_t number, std::string& text, std::size_t width = 0) {
  const fmt::format_int digits(number);
  if (digits.size() < width) text.append(width - digits.size(), ' ');
  text.append(digits.data(), digits.size());
}

}  // namespace

void append_json(const OrderedSlot& slot, std::string& text) {
  text += "{\"slot\":";
  append_number(slot.slot, text);
  if (slot.step > 0) {
    text += ",\"step\":";
    append_number(static_cast<std::uint64_t>(slot.step), text);
  }
  if (slot.sample == nullptr) {
    text += ",\"masked\":true}\n";
    return;
  }
  text += ",\"stream\":";
  append_number(static_cast<std::uint64_t>(slot.stream), text);
  text += ",\"url\":";
  append_url(*slot.sample->url, [&](std::string_view url) { append_quoted(url, text); });
  text += ",\"key\":";
  append_quoted(slot.sample->key, text);
  text += "}\n";
}

void append_line(const OrderedSlot& slot, std::string& text) {
  constexpr std::size_t kSlotWidth = 8;
  constexpr std::size_t kStepWidth = 6;
  constexpr std::size_t kStreamWidth = 4;
  append_number(slot.slot, text, kSlotWidth);
  text += ' ';
  if (slot.step > 0) {
    append_number(static_cast<std::uint64_t>(slot.step), text, kStepWidth);
    text += ' ';
  }
  if (slot.sample == nullptr) {
    text += "     masked\n";
    return;
  }
  append_number(static_cast<std::uint64_t>(slot.stream), text, kStreamWidth);
  text += ' ';
  text += shown_name(slot.sample->key);
  text += "  ";
  append_url(*slot.sample->url, [&](std::string_view url) { text += shown_name(url); });
  text += '\n';
}

void append_identity(const OrderedSlot& slot, std::string& text) {
  std::array<char, 8> number{};
  std::uint64_t rest = slot.slot;
  for (char& byte : number) {
    byte = static_cast<char>(rest & 0xFFU);
    rest >>= 8U;
  }
  text.append(number.data(), number.size());
  if (slot.sample != nullptr) text += slot.sample->key;
  text += '\0';
}

}  // namespace millrace::tools

#include "tools/order/slot_text.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

namespace millrace::tools {
namespace {

/// A JSON string. Nearly all need no escapes, and millions are printed per second.
void append_quoted(std::string_view value, std::string& text) {
  bool plain = true;
  for (const char letter : value)
    plain &= letter >= 0x20 && letter < 0x7F && letter != '"' && letter != '\\';
  if (!plain) {
    text += nlohmann::json(value).dump();
    return;
  }
  text += '"';
  text += value;
  text += '"';
}

void append_number(std::uint64_t number, std::string& text) {
  const fmt::format_int digits(number);
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
  append_quoted(*slot.sample->url, text);
  text += ",\"key\":";
  append_quoted(slot.sample->key, text);
  text += "}\n";
}

void append_line(const OrderedSlot& slot, std::string& text) {
  const auto to = std::back_inserter(text);
  fmt::format_to(to, "{:8} ", slot.slot);
  if (slot.step > 0) fmt::format_to(to, "{:6} ", slot.step);
  if (slot.sample == nullptr) {
    text += "     masked\n";
    return;
  }
  fmt::format_to(to, "{:4} {}  {}\n", slot.stream, slot.sample->key, *slot.sample->url);
}

void append_identity(const OrderedSlot& slot, std::string& text) {
  for (std::uint64_t rest = slot.slot, byte = 0; byte < 8; ++byte, rest >>= 8U)
    text += static_cast<char>(rest & 0xFFU);
  if (slot.sample != nullptr) text += slot.sample->key;
  text += '\0';
}

}  // namespace millrace::tools

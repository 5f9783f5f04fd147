#include "decode/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::decode {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";
constexpr std::string_view kSeparators = ",;";
constexpr std::string_view kEnds = " \t\r\n\v\f,;";

Error corrupt_text(std::string_view what) {
  return {ErrorCode::kCorrupt, fmt::format("not a list of numbers: {}", what)};
}

void skip_space(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
}

float number(std::string_view word) {
  std::string_view digits = word;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  const char* const last = digits.data() + digits.size();
  float value = 0;
  const auto [end, error] = std::from_chars(digits.data(), last, value);
  if (error == std::errc::invalid_argument || end != last)
    throw corrupt_text("a word that is not a number");
  if (error == std::errc()) return value;
  long double wide = 0;  // too large or too small for a float
  std::from_chars(digits.data(), last, wide);
  if (wide == 0 || std::abs(wide) > 1) throw corrupt_text("a number beyond float32");
  return static_cast<float>(wide);
}

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

}  // namespace

std::int64_t decode_integer(const io::Bytes& field) {
  std::string_view text = trimmed(field.text());
  const bool plus = text.starts_with('+');
  if (plus) text.remove_prefix(1);
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) {
    throw Error(ErrorCode::kCorrupt, "integer outside of -2^63 to 2^63 - 1: " + quoted(text));
  }
  const bool garbage = error != std::errc() || end != text.data() + text.size();
  if (garbage || (plus && text.starts_with('-'))) {
    throw Error(ErrorCode::kCorrupt, "not an integer: " + quoted(field.text()));
  }
  return value;
}

std::string_view decode_text(const io::Bytes& field) {
  const std::string_view text = field.text();
  const std::size_t good = utf8_prefix(text);
  if (good < text.size())
    throw Error(ErrorCode::kCorrupt, "text that is not UTF-8", {.offset = good});
  return text;
}

std::vector<float> decode_numbers(const io::Bytes& field) {
  std::string_view text = field.text();
  std::vector<float> numbers;
  skip_space(text);
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find_first_of(kEnds));
    numbers.push_back(number(word));
    text.remove_prefix(word.size());
    skip_space(text);
    if (text.empty() || kSeparators.find(text.front()) == std::string_view::npos) continue;
    text.remove_prefix(1);
    skip_space(text);
    if (text.empty()) throw corrupt_text("it ends with a separator");
  }
  return numbers;
}

void decode_numbers(const io::Bytes& field, std::span<float> slot) {
  const std::vector<float> numbers = decode_numbers(field);
  if (numbers.size() != slot.size()) {
    throw Error(ErrorCode::kCorrupt,
                fmt::format("{} numbers, not {}", numbers.size(), slot.size()));
  }
  std::copy(numbers.begin(), numbers.end(), slot.begin());
}

}  // namespace millrace::decode

#include "decode/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "io/base/error.h"

namespace millrace::decode {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";
constexpr std::string_view kSeparators = ",;";
constexpr std::string_view kEnds = " \t\r\n\v\f,;";

Error corrupt(std::string_view what) {
  return {ErrorCode::kCorrupt, fmt::format("not a list of numbers: {}", what)};
}

void skip_space(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
}

float number(std::string_view word) {
  std::string_view digits = word;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  float value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range) throw corrupt("a number beyond float32");
  if (error != std::errc() || end != digits.data() + digits.size()) {
    throw corrupt("a word that is not a number");
  }
  return value;
}

}  // namespace

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
    if (text.empty()) throw corrupt("it ends with a separator");
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

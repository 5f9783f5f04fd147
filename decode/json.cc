#include "decode/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "decode/detail/json_tree.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

using JsonTree = nlohmann::json;
using detail::json_tree;
using detail::value_at;

void append_numbers(const JsonTree& value, std::string_view where, std::vector<float>& numbers) {
  if (value.is_array()) {
    for (const JsonTree& item : value) append_numbers(item, where, numbers);
  } else if (value.is_boolean()) {
    numbers.push_back(value.get<bool>() ? 1.0F : 0.0F);
  } else if (value.is_number()) {
    numbers.push_back(value.get<float>());
    if (!std::isfinite(numbers.back()))
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("JSON value at \"{}\" holds a number beyond float32", where));
  } else {
    throw Error(ErrorCode::kCorrupt, fmt::format("JSON value at \"{}\" holds a {}, not numbers",
                                                 where, value.type_name()));
  }
}

}  // namespace

std::vector<float> decode_json_numbers(const io::Bytes& field, std::string_view where) {
  const JsonTree document = json_tree(field);
  std::vector<float> numbers;
  append_numbers(value_at(document, where), where, numbers);
  return numbers;
}

void decode_json_numbers(const io::Bytes& field, std::string_view where, std::span<float> slot) {
  const std::vector<float> numbers = decode_json_numbers(field, where);
  if (numbers.size() != slot.size()) {
    throw Error(ErrorCode::kCorrupt, fmt::format("JSON value at \"{}\" has {} numbers, not {}",
                                                 where, numbers.size(), slot.size()));
  }
  std::copy(numbers.begin(), numbers.end(), slot.begin());
}

std::int64_t decode_json_integer(const io::Bytes& field, std::string_view where) {
  const JsonTree document = json_tree(field);
  const JsonTree& value = value_at(document, where);
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max());
  if (!fits)
    throw Error(ErrorCode::kCorrupt,
                fmt::format("JSON value at \"{}\" is not a whole number of 64 bits", where));
  return value.get<std::int64_t>();
}

std::string decode_json_text(const io::Bytes& field, std::string_view where) {
  const JsonTree document = json_tree(field);
  const JsonTree& value = value_at(document, where);
  if (value.is_null())
    throw Error(ErrorCode::kCorrupt, fmt::format("JSON value at \"{}\" is null", where));
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool lacks_json_value(const io::Bytes& field, std::string_view where) try {
  const JsonTree document = json_tree(field);
  const JsonTree* value = detail::find_value(document, where);
  return value == nullptr || value->is_null();
} catch (const Error&) {  // not JSON: damage, not absence
  return false;
}

void check_json(const io::Bytes& field) { static_cast<void>(json_tree(field)); }

}  // namespace millrace::decode

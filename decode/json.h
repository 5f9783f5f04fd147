// Values from JSON fields: label vectors, targets, class numbers, texts.
//
// `where` names the value: a JSON pointer ("/labels/0"), a key of the outermost object ("labels"),
// or "" for the whole document. Numbers are a number, true or false (1 and 0), or a list of them;
// nested lists are flattened in order.
//
//   std::array<float, 10> labels;
//   decode_json_numbers(field, "labels", labels);
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace millrace::decode {

/// Throws: Corrupt if the field is not JSON, is nested more than 64 deep, has no such value, or the
/// value contains anything but numbers.
std::vector<float> decode_json_numbers(const io::Bytes& field, std::string_view where);

/// The same directly into a slot. Throws: Corrupt also unless there are slot.size() numbers.
void decode_json_numbers(const io::Bytes& field, std::string_view where, std::span<float> slot);

/// A whole number that fits into 64 bits, true or false. Throws: Corrupt for anything else.
std::int64_t decode_json_integer(const io::Bytes& field, std::string_view where);
/// A string's UTF-8; a number, list or object as JSON writes it. Throws: Corrupt, also for null.
std::string decode_json_text(const io::Bytes& field, std::string_view where);

/// Whether the field is JSON that has nothing there, or null.
bool lacks_json_value(const io::Bytes& field, std::string_view where);

/// Throws: Corrupt if the field is not JSON.
void check_json(const io::Bytes& field);

}  // namespace millrace::decode

// Numbers from JSON fields: label vectors, targets.
//
// `where` names the value: a JSON pointer ("/labels/0"), a key of the outermost object ("labels"),
// or "" for the whole document. The value is a number, true or false (1 and 0), or a list of them;
// nested lists are flattened in order.
//
//   std::array<float, 10> labels;
//   decode_json_numbers(field, "labels", labels);
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace millrace::decode {

/// Throws: Corrupt if the field is not JSON, is nested more than 64 deep, has no such value, or the
/// value contains anything but numbers.
std::vector<float> decode_json_numbers(const io::Bytes& field, std::string_view where);

/// The same directly into a slot. Throws: Corrupt also unless there are slot.size() numbers.
void decode_json_numbers(const io::Bytes& field, std::string_view where, std::span<float> slot);

/// Throws: Corrupt if the field is not JSON.
void check_json(const io::Bytes& field);

}  // namespace millrace::decode

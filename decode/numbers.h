// Numbers written as text: a row of a table, a label vector.
#pragma once

#include <span>
#include <vector>

#include "io/bytes.h"

namespace millrace::decode {

/// Decimal numbers separated by spaces, newlines, commas, semicolons or tabs: "0, 1, 0.5". A sign,
/// an exponent, nan and inf are accepted. Throws: Corrupt for anything else, including two commas
/// in a row.
std::vector<float> decode_numbers(const io::Bytes& field);

/// The same directly into a slot. Throws: Corrupt also unless there are slot.size() numbers.
void decode_numbers(const io::Bytes& field, std::span<float> slot);

}  // namespace millrace::decode

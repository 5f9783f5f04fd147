// Fields written as text: integers, lists of numbers, UTF-8.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace millrace::decode {

/// A decimal integer, as in `cls`, `index` and `id` fields: surrounding white space and a sign are
/// accepted. Throws: Corrupt for anything else, and for what does not fit into 64 bits.
std::int64_t decode_integer(const io::Bytes& field);

/// UTF-8 text, unchanged. Lifetime: the field's. Throws: Corrupt if it is not UTF-8.
std::string_view decode_text(const io::Bytes& field);

/// Decimal numbers separated by spaces, newlines, commas, semicolons or tabs: "0, 1, 0.5". A sign,
/// an exponent, nan and inf are accepted. Throws: Corrupt for anything else, including two commas
/// in a row.
std::vector<float> decode_numbers(const io::Bytes& field);

/// The same directly into a slot. Throws: Corrupt also unless there are slot.size() numbers.
void decode_numbers(const io::Bytes& field, std::span<float> slot);

}  // namespace millrace::decode

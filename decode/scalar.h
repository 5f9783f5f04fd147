// Fields that are one value: class numbers and text.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/bytes.h"

namespace millrace::decode {

/// A decimal integer, as in `cls`, `index` and `id` fields: surrounding white space and a sign are
/// accepted. Throws: Corrupt for anything else, and for what does not fit into 64 bits.
std::int64_t decode_integer(const io::Bytes& field);

/// UTF-8 text, unchanged. Lifetime: the field's. Throws: Corrupt if it is not UTF-8.
std::string_view decode_text(const io::Bytes& field);

}  // namespace millrace::decode

// Fields that are one value: class numbers and text.
#pragma once

#include <cstdint>
#include <string_view>

#include "io/bytes.h"

namespace millrace::decode {

/// A decimal integer, as `cls`, `index` and `id` fields hold it: white space around it and a sign
/// are accepted. Throws: Corrupt for anything else, and for what does not fit into 64 bits.
std::int64_t decode_integer(const io::Bytes& field);

/// UTF-8 text, as it is; valid as long as the field. Throws: Corrupt when it is not UTF-8.
std::string_view decode_text(const io::Bytes& field);

}  // namespace millrace::decode

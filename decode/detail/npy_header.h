// The header of a .npy file: a magic, a version, and a Python dictionary as text.
#pragma once

#include <cstddef>
#include <string_view>

#include "decode/npy.h"

namespace millrace::decode::detail {

/// Everything except `data`, which begins at `offset`. The product of the shape and the item size
/// is below 2^62. Throws: Corrupt, Truncated, Unsupported.
NpyArray read_npy_header(std::string_view file, std::size_t& offset);

}  // namespace millrace::decode::detail

// zlib's inflate behind one wrapper, with caps.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "decode/limits.h"

namespace millrace::decode::detail {

enum class Packing { kGzip, kDeflate };

/// Unpacks all of `packed`: gzip members one after the other, or one raw deflate stream.
/// Throws: Corrupt, Truncated, Exhausted.
std::vector<std::byte> inflate_all(std::span<const std::byte> packed, Packing packing,
                                   const Limits& limits);

}  // namespace millrace::decode::detail

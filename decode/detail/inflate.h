// A wrapper of zlib's inflate, with limits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "decode/limits.h"

namespace millrace::decode::detail {

enum class Packing { kGzip, kDeflate };

/// Unpacks all of `packed`: concatenated gzip members, or one raw deflate stream.
/// Throws: Corrupt, Truncated, Exhausted.
std::vector<std::byte> inflate_all(std::span<const std::byte> packed, Packing packing,
                                   const Limits& limits);

}  // namespace millrace::decode::detail
